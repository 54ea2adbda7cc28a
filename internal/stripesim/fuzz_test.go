package stripesim

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func seeds() []string {
	return []string{
		form(), form("metadata[a]=1", "expand[]=line_items"), "a[][b]=1&a[][b]=2&a[][c][]=3", "a[0][b]=1&a[1][b]=2", "a=%zz",
		"[a]=1", "a[b=1", "a[b]c=1", strings.Repeat("a[]=&", 50), "a" + strings.Repeat("[b]", 9) + "=1", "line_items[][quantity]=",
		"metadata=", "metadata[]=1", "types[]=a&type=b", "created[gte]=x", "limit=-1", "expand[]=data.charge&expand[]=x.y.z.w.v",
		"amount=5&currency=usd&payment_method=pm_card_visa&confirm=true", "name=Key&images[]=", "percent_off=12.5", "evidence[x]=1",
		"type=card&card[token]=tok_visa", "url=http://x&enabled_events[]=*", "coupon=x&code=%00", "discounts[0][coupon]=x",
	}
}

// FuzzForm: whatever a client sends as a form, the parser answers a tree within its bounds, or a 400.
func FuzzForm(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		n, err := parseForm(raw)
		if err != nil {
			if err.status != http.StatusBadRequest || !err.unsaved {
				t.Fatalf("%+v", err)
			}
			return
		}
		if deep(n) > maxDepth+1 || n.canonical() == "" {
			t.Fatalf("out of bounds: %d", deep(n))
		}
		if again, err := parseForm(raw); err != nil || again.canonical() != n.canonical() {
			t.Fatal("the same form meant something else")
		}
	})
}

// FuzzEndpoints: no endpoint makes a 5xx or a panic of what a client sends.
func FuzzEndpoints(f *testing.F) {
	all := routes()
	for i, seed := range seeds() {
		f.Add(uint(i), seed)
	}
	for i := range all {
		f.Add(uint(i), form())
	}
	f.Fuzz(func(t *testing.T, which uint, raw string) {
		sim := New(Config{})
		defer sim.Close()
		rt := all[which%uint(len(all))]
		method, path, _ := strings.Cut(strings.ReplaceAll(rt.pattern, "{id}", "x"), " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(raw))
		if method != http.MethodPost {
			r.URL.RawQuery = raw
		}
		r.Header.Set("Authorization", "Bearer "+testKey)
		w := httptest.NewRecorder()
		sim.Handler().ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%s %q: %d %s", rt.pattern, raw, w.Code, w.Body)
		}
	})
}

func deep(n *node) int {
	most := 0
	for _, v := range n.member {
		most = max(most, deep(v))
	}
	for _, v := range n.items {
		most = max(most, deep(v))
	}
	return most + 1
}
