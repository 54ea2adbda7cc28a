package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/internal/web"
)

// The order's token opens it; nothing else does, and what else answers is the same for an order
// that exists and one that does not.
func TestShow_Token(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	mine, other := s.order(t), s.order(t)
	const nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
	refusals := map[string]answer{}
	for _, id := range []string{mine.ID.String(), nobody, "not-an-id", "", mine.ID.String() + "x"} {
		for name, headers := range map[string][]string{
			"none": {}, "empty": {"Authorization", "Bearer "}, "wrong": {"Authorization", "Bearer " + strings.Repeat("A", 43)},
			"another's": {"Authorization", "Bearer " + other.Token}, "not base64": {"Authorization", "Bearer ***"},
			"basic": {"Authorization", "Basic " + mine.Token}, "cut": {"Authorization", "Bearer " + mine.Token[:20]},
		} {
			got := do(t, http.MethodGet, s.url+"/orders/"+id, "", headers...)
			got.Header.Del("Date")
			if id == "" {
				if got.Status != http.StatusNotFound {
					t.Errorf("no id: got %d", got.Status)
				}
				continue
			}
			refusals[id+" "+name] = got
		}
	}
	want := refusals[mine.ID.String()+" none"]
	if want.Status != http.StatusUnauthorized || want.problem(t).Code != "BAD_TOKEN" || want.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("got %d %s", want.Status, want.Body)
	}
	for name, got := range refusals {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs (-no token +this)\n%s", name, diff)
		}
	}

	for _, got := range []answer{
		do(t, http.MethodGet, s.url+"/orders/"+mine.ID.String(), "", "Authorization", "Bearer "+mine.Token),
		do(t, http.MethodGet, s.url+"/orders/"+mine.ID.String(), "", "Authorization", "bearer "+mine.Token), // RFC 9110: case does not matter
		do(t, http.MethodGet, s.url+"/orders/"+mine.ID.String()+"?token="+mine.Token, ""),
	} {
		if got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("with the token: got %d %s %s", got.Status, got.Header.Get("Cache-Control"), got.Body)
		}
	}
	if strings.Contains(s.log.String(), mine.Token) {
		t.Error("the token is in the log")
	}
}

// A token of an order that was never written is genuine, and there is nothing behind it.
func TestShow_NoSuchOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.order(t).ID
	id[0]++
	got := do(t, http.MethodGet, s.url+"/orders/"+id.String()+"?token="+web.NewTokens(appSecret).Of(id), "")
	if p := got.problem(t); got.Status != http.StatusNotFound || p.Code != "NOT_FOUND" {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

// Without a session of the order, the page that a provider sends the buyer back to tells
// nothing and changes nothing.
func TestReturned_TellsNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	order := s.order(t)
	before := query[string](t, s, `SELECT o::text FROM orders o`)
	there := do(t, http.MethodGet, s.url+"/orders/"+order.ID.String()+"/return?session_id=cs_x", "")
	nowhere := do(t, http.MethodGet, s.url+"/orders/nothing/return", "")
	if there.Status != http.StatusOK || there.Body != nowhere.Body || strings.Contains(there.Body, order.ID.String()) || strings.Contains(there.Body, "cs_x") {
		t.Errorf("got %d %s", there.Status, there.Body)
	}
	if after := query[string](t, s, `SELECT o::text FROM orders o`); after != before {
		t.Errorf("changed\nfrom %s\nto   %s", before, after)
	}
}
