package provider_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// shelf is a Stripe whose intents are made at chosen seconds.
type shelf struct {
	t     *testing.T
	sim   *stripesim.Sim
	url   string
	clock atomic.Int64 // the simulated Stripe's, in seconds
	asked func() int
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t}
	s.clock.Store(noon().Unix())
	s.sim = stripesim.New(stripesim.Config{Now: func() time.Time { return time.Unix(s.clock.Load(), 0).UTC() }})
	server := httptest.NewServer(s.sim.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.sim.Close)
	s.url = server.URL
	s.asked = func() int { return len(s.sim.Calls()) }
	return s
}

// noon is when the first intents are made.
func noon() time.Time { return time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC) }

// make makes n intents at a time.
func (s *shelf) make(at time.Time, n int) {
	s.t.Helper()
	s.clock.Store(at.Unix())
	for range n {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/v1/payment_intents",
			strings.NewReader(url.Values{"amount": {"100"}, "currency": {"usd"}}.Encode()))
		must(s.t, err)
		request.Header.Set("Authorization", "Bearer "+secretKey)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(request)
		must(s.t, err)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			s.t.Fatalf("making an intent: %d", response.StatusCode)
		}
	}
}

// ids are all intents, in the order of their making.
func (s *shelf) ids() []string {
	s.t.Helper()
	var ids []string
	for _, e := range s.sim.Events() {
		if e.Type == "payment_intent.created" {
			ids = append(ids, gjson.GetBytes(e.Body, "data.object.id").Str)
		}
	}
	return ids
}

func (s *shelf) lister(pageSize int) *provider.Lister {
	return &provider.Lister{
		Stripe:   provider.NewStripe(provider.StripeConfig{Key: secretKey, Base: s.url}),
		PageSize: pageSize, PerSecond: 10000, Now: time.Now,
	}
}

// walk goes through the window from a cursor to the end. Between two pages it does between.
func (s *shelf) walk(l *provider.Lister, w provider.Walk, from provider.Cursor, between func(page int)) []string {
	s.t.Helper()
	var ids []string
	for n := 1; ; n++ {
		page, err := l.Next(s.t.Context(), w, from)
		must(s.t, err)
		for _, o := range page.Objects {
			ids = append(ids, o.ID)
		}
		from = page.Cursor
		if !page.More {
			return ids
		}
		if between != nil {
			between(n)
		}
	}
}

func (s *shelf) window(since, until time.Time) provider.Walk {
	return provider.Walk{Listing: provider.ListIntents, Since: since, Until: until}
}

// Every object once, oldest first, however they lie: spread out, or more of them in one
// second than a page holds, at the beginning, in the middle or at the end of the window.
func TestLister_EveryObjectOnceOldestFirst(t *testing.T) {
	t.Parallel()
	start := noon()
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for name, seconds := range map[string][]int{ // how many in each second
		"none":                     {},
		"one":                      {1},
		"a page":                   {2, 1},
		"a page and one":           {1, 1, 1, 1},
		"one crowded second":       {10},
		"two full pages, one sec":  {6},
		"crowded at the beginning": {8, 0, 0, 1, 2},
		"crowded in the middle":    {1, 0, 8, 0, 1},
		"crowded at the end":       {1, 2, 0, 0, 8},
		"two crowded ones":         {5, 5},
		"spread out":               {1, 0, 1, 1, 0, 0, 0, 0, 2, 0, 0, 1, 1, 1, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			for n, count := range seconds {
				s.make(second(n), count)
			}
			got := s.walk(s.lister(3), s.window(start.Add(-72*time.Hour), start.Add(time.Hour)), "", nil)
			if diff := cmp.Diff(s.ids(), got); diff != "" {
				t.Errorf("walk (-made +got):\n%s", diff)
			}
		})
	}
}

// What appears while somebody is paging is seen in the same walk, if it is of the window, and
// moves nothing: nothing is skipped and nothing comes twice.
func TestLister_ObjectsAppearWhilePaging(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	start := noon()
	s.make(start, 7)
	appear := func(page int) {
		if page <= 3 {
			s.make(start.Add(time.Duration(page/2)*time.Second), 2) // the first in a second that is being read
		}
	}
	got := s.walk(s.lister(3), s.window(start.Add(-time.Hour), start.Add(time.Hour)), "", appear)
	if diff := cmp.Diff(s.ids(), got); diff != "" {
		t.Errorf("walk (-made +got):\n%s", diff)
	}
}

// A walk that is taken up again goes on after the cursor, also if the object that it names is
// not listed any more: then the rest of that second comes again, and nothing is missed.
func TestLister_GoesOnFromACursor(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	start := noon()
	for n := range 8 {
		s.make(start.Add(time.Duration(n)*time.Second), 1)
	}
	made, w := s.ids(), s.window(start.Add(-time.Hour), start.Add(time.Hour))
	page, err := s.lister(3).Next(t.Context(), w, "")
	must(t, err)
	rest := s.walk(s.lister(3), w, page.Cursor, nil)
	if diff := cmp.Diff(made[len(page.Objects):], rest); diff != "" {
		t.Errorf("after the first page (-want +got):\n%s", diff)
	}

	gone := provider.Cursor(fmt.Sprintf("%d:pi_gone", start.Add(2*time.Second).Unix()))
	if diff := cmp.Diff(made[2:], s.walk(s.lister(3), w, gone, nil)); diff != "" {
		t.Errorf("after an object that is gone (-want +got):\n%s", diff)
	}
	if _, err := s.lister(3).Next(t.Context(), w, "nonsense"); err == nil {
		t.Error("nonsense was taken for a place in a list")
	}
}

// B53: windows are half-open and in UTC. A payment of 23:30 local time in the night in which
// the clocks go back, and one of each edge of a day, are in exactly one day, and the days sum
// up to the total.
func TestB53_EveryObjectIsInExactlyOneDay(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	for _, at := range []time.Time{
		time.Date(2026, 10, 24, 23, 30, 0, 0, berlin), // 21:30 UTC
		time.Date(2026, 10, 24, 23, 59, 59, 0, time.UTC),
		time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 10, 25, 2, 30, 0, 0, berlin), // there are two of it
		time.Date(2026, 10, 25, 23, 30, 0, 0, berlin),
		time.Date(2026, 10, 25, 23, 59, 59, 0, time.UTC),
		time.Date(2026, 10, 26, 0, 0, 0, 0, time.UTC),
	} {
		s.make(at.UTC(), 4) // more than a page, in each of these seconds
	}
	var sum []string
	for day := range 3 {
		midnight := time.Date(2026, 10, 24+day, 0, 0, 0, 0, time.UTC)
		sum = append(sum, s.walk(s.lister(3), s.window(midnight, midnight.AddDate(0, 0, 1)), "", nil)...)
	}
	if diff := cmp.Diff(s.ids(), sum); diff != "" {
		t.Errorf("the days together (-made +listed):\n%s", diff)
	}
}

// A walk costs a request a page, and some to find its beginning; and a page that fails is
// asked for again, after the wait that the provider asks for.
func TestLister_RequestsAndRetries(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	start := noon()
	for n := range 60 {
		s.make(start.Add(time.Duration(n)*time.Minute), 1)
	}
	s.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: "/v1/payment_intents", Status: http.StatusTooManyRequests, RetryAfter: "1"})
	before, began := s.asked(), time.Now()
	got := s.walk(s.lister(3), s.window(start.Add(-72*time.Hour), start.Add(time.Hour)), "", nil)
	if diff := cmp.Diff(s.ids(), got); diff != "" {
		t.Errorf("walk (-made +got):\n%s", diff)
	}
	if n := s.asked() - before; n > 60/3+25 {
		t.Errorf("%d requests for 20 pages, want about one each", n)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("the walk took %s: Retry-After was not obeyed", took)
	}

	s.sim.Inject(stripesim.Fault{Method: http.MethodGet, Path: "/v1/payment_intents", Times: 2, Status: http.StatusInternalServerError})
	l := s.lister(3)
	l.Attempts = 1
	if _, err := l.Next(t.Context(), s.window(start, start.Add(time.Hour)), ""); !errors.As(err, new(*provider.RetryError)) {
		t.Errorf("a page that failed = %v, want an error that says so", err)
	}
}

// The budget is kept: no more requests a second than it allows.
func TestLister_KeepsToItsBudget(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	start := noon()
	s.make(start, 9)
	l := s.lister(3)
	l.PerSecond = 20
	before, began := s.asked(), time.Now()
	s.walk(l, s.window(start, start.Add(time.Second)), "", nil)
	n, took := s.asked()-before, time.Since(began)
	if least := time.Duration(n-1) * time.Second / 20; took < least {
		t.Errorf("%d requests in %s, want at least %s", n, took, least)
	}
}

// Pages that are no lists are errors, never the end of a walk.
func TestLister_UnreadablePages(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{}`, `[]`, `{"object":"list","data":[],"has_more":true}`, `{"object":"list","data":[{"id":"pi_1"}]}`,
		`{"object":"list","data":[{"created":5}]}`, `{"object":"list","data":{}}`,
	} {
		stub, stripe := newStub(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		l := &provider.Lister{Stripe: stripe, Attempts: 1, Now: time.Now}
		w := provider.Walk{Listing: provider.ListIntents, Since: time.Unix(0, 0), Until: time.Unix(10, 0)}
		if page, err := l.Next(t.Context(), w, ""); err == nil {
			t.Errorf("%s = %+v, want an error", body, page)
		}
		asked := stub.asked[0].URL.Query()
		if !slices.Equal(asked["created[gte]"], []string{"0"}) || !slices.Equal(asked["created[lt]"], []string{"10"}) || asked.Get("limit") != "100" {
			t.Errorf("asked %v, want a half-open window of full pages", asked)
		}
	}
}
