package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"gorm.io/gorm"

	"paidonce/internal/stripesim"
	"paidonce/internal/web"
)

// show reads an order with its token; what differs from run to run is masked.
func (s shop) show(t *testing.T, order created) string {
	t.Helper()
	got := do(t, http.MethodGet, s.url+"/orders/"+order.ID.String(), "", "Authorization", "Bearer "+order.Token)
	if got.Status != http.StatusOK {
		t.Fatalf("got %d %s", got.Status, got.Body)
	}
	masked := strings.ReplaceAll(got.Body, order.ID.String(), "ORDER")
	for _, m := range []struct{ pattern, mask string }{
		{`"number":\d+`, `"number":1`},
		{`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`, `"TIME"`}, // UTC: anything else would stay, and differ
		{`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`, `UUID`},
		{`key/[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+`, `key/CLAIMS.SIGNATURE`},
		{`http://[^"]*`, `URL`},
		{`evt_[A-Za-z0-9]+`, `evt_ID`},
	} {
		masked = regexp.MustCompile(m.pattern).ReplaceAllString(masked, m.mask)
	}
	var pretty json.RawMessage = []byte(masked)
	indented, err := json.MarshalIndent(pretty, "", "  ")
	must(t, err)
	return string(indented) + "\n"
}

// golden compares with a file of testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}

// pay pays an order at the simulated Stripe and brings its events in, as the webhook would.
func (s shop) pay(t *testing.T, order created, o stripesim.PayOptions) {
	t.Helper()
	session := query[string](t, s, `SELECT resource_id FROM payments WHERE order_id = $1`, order.ID)
	paid, err := s.sim.Pay(session, o)
	must(t, err)
	s.bringEvents(t, paid.Events)
}

// The shape of an order, at each stop of its way. The files of testdata are the reference that
// clients rely on: a change of them is a change of the API.
func TestShow_Golden(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	golden(t, "order_pending.json", s.show(t, order))

	s.pay(t, order, stripesim.PayOptions{})
	golden(t, "order_paid.json", s.show(t, order))

	must(t, s.service.FulfillOrder(t.Context(), order.ID, func(*gorm.DB) error { return nil }))
	golden(t, "order_fulfilled.json", s.show(t, order))

	another, less := s.order(t), int64(1)
	s.pay(t, another, stripesim.PayOptions{Amount: &less})
	golden(t, "order_review.json", s.show(t, another))
}

// What clients of every language may rely on: lists are lists, never null, and times are UTC.
func TestShow_ListsAreNeverNull(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	got := do(t, http.MethodGet, s.url+"/orders/"+order.ID.String()+"?token="+order.Token, "")
	fields := decode[map[string]any](t, got.Body)
	for _, name := range []string{"lines", "licenses", "receipts", "timeline"} {
		if _, isList := fields[name].([]any); !isList {
			t.Errorf("%s is %v, want a list", name, fields[name])
		}
	}
	if reason, there := fields["review_reason"]; !there || reason != nil {
		t.Errorf("review_reason is %v, want null", reason)
	}
}

// A token is the order's own, depends on the secret, and is the same each time.
func TestTokens(t *testing.T) {
	t.Parallel()
	tokens, another := web.NewTokens(appSecret), web.NewTokens(appSecret+"x")
	a, b := uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"), uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")
	if again := web.NewTokens(appSecret); tokens.Of(a) != again.Of(a) || tokens.Of(a) == tokens.Of(b) || tokens.Of(a) == another.Of(a) {
		t.Error("the token does not depend on the order and the secret, and on nothing else")
	}
	if len(tokens.Of(a)) != 43 || regexp.MustCompile(`[^A-Za-z0-9_-]`).MatchString(tokens.Of(a)) {
		t.Errorf("%q does not fit an address as it is", tokens.Of(a))
	}
	for _, c := range []struct {
		name, token string
		want        bool
	}{
		{"its own", tokens.Of(a), true},
		{"another order's", tokens.Of(b), false},
		{"of another secret", another.Of(a), false},
		{"none", "", false},
		{"cut", tokens.Of(a)[:42], false},
		{"longer", tokens.Of(a) + "AAAA", false},
		{"padded", tokens.Of(a) + "=", false},
		{"in capitals", strings.ToUpper(tokens.Of(a)), false},
		{"not base64", strings.Repeat("*", 43), false},
	} {
		if got := tokens.Opens(a, c.token); got != c.want {
			t.Errorf("%s: opens is %v, want %v", c.name, got, c.want)
		}
	}
}

// There are no tokens without a secret: an empty one would be everybody's.
func TestNewTokens_RefusesAnEmptySecret(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "without a secret") {
			t.Errorf("got %q, want a panic that says so", p)
		}
	}()
	web.NewTokens("")
}
