package provider_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"paidonce/internal/provider"
	"paidonce/internal/stripesim"
)

// Calls that were written down before they named their payment are found by order, where that
// leaves no doubt.
func TestAdopt_RowsWithoutThePaymentsName(t *testing.T) {
	t.Parallel()
	d := openDesk(t, 0)
	for name, test := range map[string]struct {
		before func(d desk, old provider.Call) // what else there is
		want   string                          // "" for adopted
	}{
		"alone":                             {func(desk, provider.Call) {}, ""},
		"beside one that names its payment": {func(d desk, _ provider.Call) { d.posted(checkout().Call().Params) }, ""},
		"beside another's settled one": {func(d desk, old provider.Call) {
			second := d.secondCall(old)
			must(d.t, d.perform(second.IdempotencyKey))
			d.age(second.IdempotencyKey, aDay)
		}, ""},
		"beside another's unknown one": {func(d desk, old provider.Call) {
			second := d.secondCall(old)
			d.sim.Inject(stripesim.Fault{Kind: stripesim.LoseRequest})
			_ = d.perform(second.IdempotencyKey)
		}, "more than one call"},
		"beside a later one of the same order": {func(d desk, old provider.Call) {
			request := checkout()
			request.OrderID = orderOf(d.t, old)
			d.posted(request.Call().Params)
		}, ""},
		"beside one that somebody marked by hand": {func(d desk, old provider.Call) {
			d.posted([]byte(strings.ReplaceAll(string(old.Params), "client_reference_id="+orderOf(d.t, old).String(), "client_reference_id=1001")))
		}, ""},
		"two of them": {func(d desk, old provider.Call) { d.posted(old.Params) }, "more than one call"},
		"a buyer's own reference": {func(d desk, old provider.Call) {
			d.posted([]byte(strings.ReplaceAll(string(old.Params), "metadata[paidonce_order]", "metadata[other]")))
		}, ""},
	} {
		alerts := d.alerts()
		old := withoutPayment(checkout().Call())
		d.intend(old)
		var made string
		d.yesterday(old.IdempotencyKey, func() {
			d.sim.Inject(stripesim.Fault{Kind: stripesim.LoseAnswer})
			_ = d.perform(old.IdempotencyKey)
			made = d.newest()
			test.before(d, old)
		})
		d.exec(`UPDATE provider_calls SET last_sent_at = NULL`)
		err := d.perform(old.IdempotencyKey)
		if test.want == "" {
			must(t, err)
			d.wantAdopted(name, old.IdempotencyKey, made)
			continue
		}
		if !errors.Is(err, provider.ErrKeyTooOld) || !strings.Contains(err.Error(), test.want) || d.alerts()-alerts != 1 {
			t.Errorf("%s: got %v and %d alerts, want %q", name, err, d.alerts()-alerts, test.want)
		}
		d.wantState(name, old.IdempotencyKey, provider.CallUnknown)
	}
}

// withoutPayment is a call as it was written down before payments were named.
func withoutPayment(call provider.Call) provider.Call {
	var kept []string
	for pair := range strings.SplitSeq(string(call.Params), "&") {
		if name, _, _ := strings.Cut(pair, "="); !strings.Contains(name, provider.PaymentMarker) {
			kept = append(kept, pair)
		}
	}
	call.Params = []byte(strings.Join(kept, "&"))
	return call
}

// secondCall writes down another such call of the same order.
func (d desk) secondCall(old provider.Call) provider.Call {
	d.t.Helper()
	request := checkout()
	request.OrderID = orderOf(d.t, old)
	second := withoutPayment(request.Call())
	d.intend(second)
	return second
}

// orderOf is the order that a call names.
func orderOf(t *testing.T, call provider.Call) uuid.UUID {
	t.Helper()
	form, err := url.ParseQuery(string(call.Params))
	must(t, err)
	return uuid.MustParse(form.Get("client_reference_id"))
}
