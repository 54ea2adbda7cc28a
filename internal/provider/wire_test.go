package provider_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// stub is a Stripe that says exactly what a test wants, and notes what it was asked.
type stub struct {
	mu    sync.Mutex
	asked []*http.Request
}

func newStub(t *testing.T, answer http.HandlerFunc) (*stub, *provider.Stripe) {
	t.Helper()
	s := &stub{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return s, provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: server.URL})
}

// TestStripe_AsksOnce: there is one schedule of retries, and it is not stripe-go's, whatever
// Stripe advises: each attempt is one request, and all carry the one key.
func TestStripe_AsksOnce(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, answer := range map[string]http.HandlerFunc{
		"500, should retry": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Stripe-Should-Retry", "true")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"error":{"type":"api_error"}}`)
		},
		"409": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"idempotency_key_in_use"}}`)
		},
		"429 lock_timeout": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"lock_timeout"}}`)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = conn.Write([]byte("HTTP/1.1 "))
				_ = conn.Close()
			}
		},
	} {
		s, client := newStub(t, answer)
		d.Stripe = client
		key := d.intended()
		for attempt := 1; attempt <= 3; attempt++ {
			if err := d.perform(key); err == nil || len(s.asked) != attempt {
				t.Errorf("%s: %d requests after %d attempts (%v), want one each", name, len(s.asked), attempt, err)
			}
		}
		for _, r := range s.asked {
			if r.Header.Get("Idempotency-Key") != key {
				t.Errorf("%s: key %q, want %q", name, r.Header.Get("Idempotency-Key"), key)
			}
		}
		if _, err := client.ReadPayment(t.Context(), "cs_1"); err == nil || len(s.asked) != 4 {
			t.Errorf("%s: %d requests for one read (%v)", name, len(s.asked)-3, err)
		}
	}
}

// TestPerform_ATimeout: the client gives up, before Stripe has done anything or while it goes
// on to do it. Both look the same from here, and end with one effect.
func TestPerform_ATimeout(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	patient := d.Stripe
	for name, kind := range map[string]stripesim.FaultKind{"before the effect": stripesim.LoseRequest, "after it": stripesim.Answered} {
		gate := make(chan struct{})
		d.sim.Inject(stripesim.Fault{Kind: kind, Gate: gate})
		d.Stripe = provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: d.url, Timeout: 200 * time.Millisecond})
		key := d.intended()
		var retry *provider.RetryError
		if err := d.perform(key); !errors.As(err, &retry) || retry.After != 0 {
			t.Errorf("%s: got %v, want a retry", name, err)
		}
		d.wantState(name, key, provider.CallUnknown)
		close(gate)
		d.Stripe = patient
		d.until("the retry", func() bool { return d.perform(key) == nil }) // 409 until Stripe is through
		d.wantOneEffect(name, key)
	}
}

// TestB28_RetryAfterInBothForms: seconds, or a date, by the clock of whoever says it, which
// is not ours; and never longer than ten minutes.
func TestB28_RetryAfterInBothForms(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	theirs := time.Date(2031, 3, 1, 12, 0, 0, 0, time.UTC) // nowhere near ours
	at := func(after time.Duration) string { return theirs.Add(after).Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		asked, date string
		want        time.Duration
	}{
		"seconds":              {"30", at(0), 30 * time.Second},
		"nothing":              {"", at(0), 0},
		"zero":                 {"0", at(0), 0},
		"a day":                {"86400", at(0), 10 * time.Minute},
		"more than any number": {"99999999999999999999", at(0), 0},
		"the largest number":   {"4294967295", at(0), 10 * time.Minute},
		"below zero":           {"-5", at(0), 0},
		"a date":               {at(90 * time.Second), at(0), 90 * time.Second},
		"a date of RFC 850":    {theirs.Add(time.Minute).Format("Monday, 02-Jan-06 15:04:05 GMT"), at(0), time.Minute},
		"a date tomorrow":      {at(24 * time.Hour), at(0), 10 * time.Minute},
		"a date gone by":       {at(-time.Minute), at(0), 0},
		"a date, and no clock": {at(time.Minute), "", 0},
		"words":                {"soon", at(0), 0},
	} {
		_, client := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Retry-After"] = []string{test.asked}
			w.Header()["Date"] = []string{test.date}
			if test.date == "" {
				w.Header()["Date"] = nil // none is sent
			}
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"type":"invalid_request_error","code":"rate_limit"}}`)
		})
		d.Stripe = client
		var retry *provider.RetryError
		if err := d.perform(d.intended()); !errors.As(err, &retry) || retry.After != test.want {
			t.Errorf("%s: got %v, want a retry after %s", name, err, test.want)
		}
	}
}

// TestB54_DigitsAreKept: numbers above 2^53, where a number could lose digits, and a
// neighbour whose metadata is none of Stripe's form hides nobody.
func TestB54_DigitsAreKept(t *testing.T) {
	t.Parallel()
	const large = 9007199254740993 // 2^53 + 1
	d := openDesk(t, 0)
	request := checkout()
	key := d.intend(request.Call())
	d.age(key, aDay)
	ours := `{"paidonce_order":"` + request.OrderID.String() + `","paidonce_payment":"` + request.PaymentID.String() + `"`
	var query url.Values
	_, client := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/checkout/sessions/cs_big" {
			fmt.Fprintf(w, `{"id":"cs_big","object":"checkout.session","status":"complete","payment_status":"paid","payment_intent":{"id":"pi_1",
				"object":"payment_intent","status":"succeeded","amount":%[1]d,"amount_received":%[1]d,"currency":"idr"}}`, large)
			return
		}
		if r.URL.Path != "/v1/checkout/sessions" { // nothing of it went back
			fmt.Fprint(w, `{"object":"list","has_more":false,"data":[]}`)
			return
		}
		query = r.URL.Query()
		fmt.Fprintf(w, `{"object":"list","has_more":false,"data":[
			{"id":"cs_number","metadata":%s,"order":%d}},
			{"id":"cs_other","metadata":{"paidonce_order":"%d","paidonce_payment":"%d"}},
			{"id":7,"metadata":{}}, "cs_torn", null, {"id":"cs_none"}, {"id":"cs_null","metadata":null},
			{"id":"cs_big","object":"checkout.session","metadata":%s,"order":"%d"},"created":1740830400,"amount_total":%d}]}`,
			ours, large, large, large, ours, large, large)
	})
	d.Stripe = client
	must(t, d.perform(key))
	d.wantAdopted("among numbers", key, "cs_big")

	row := d.row(key)
	for name, want := range map[string]time.Time{"created[gte]": row.FirstSentAt.Add(-5 * time.Minute), "created[lte]": row.LastSentAt.Add(5 * time.Minute)} {
		if got := query.Get(name); got != strconv.FormatInt(want.Unix(), 10) {
			t.Errorf("%s is %s, want %d", name, got, want.Unix())
		}
	}
	state, err := d.Stripe.ReadPayment(t.Context(), "cs_big")
	must(t, err)
	if state.ReceivedMinor != large || state.IntendedMinor != large {
		t.Errorf("received %d of %d, want %d", state.ReceivedMinor, state.IntendedMinor, int64(large))
	}
}

// A list that never ends, or does not move on, is given up; a person has a search at hand.
func TestAdopt_AListWithoutEnd(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		data  string
		asked int
		want  string
	}{
		"without end":    {`{"id":"cs_1","metadata":{}}`, 100, "too many objects"},
		"not moving on":  {``, 1, "could not be read"},
		"no list at all": {`"object":"error"`, 1, "could not be read"},
	} {
		s, client := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
			if strings.HasPrefix(test.data, `"object"`) {
				fmt.Fprintf(w, `{%s}`, test.data)
				return
			}
			fmt.Fprintf(w, `{"object":"list","has_more":true,"data":[%s]}`, test.data)
		})
		d.Stripe = client
		key := d.intended()
		d.age(key, aDay)
		alerts := d.alerts()
		err := d.perform(key)
		if err == nil || !strings.Contains(err.Error(), test.want) || len(s.asked) != test.asked {
			t.Errorf("%s: got %v after %d pages, want %q after %d", name, err, len(s.asked), test.want, test.asked)
		}
		var retry *provider.RetryError
		if again := errors.As(err, &retry); again != (test.asked == 1) || d.alerts()-alerts != map[bool]int{true: 0, false: 1}[again] {
			t.Errorf("%s: again %v, %d alerts", name, again, d.alerts()-alerts)
		}
		d.wantState(name, key, provider.CallUnknown)
	}
}
