package orders

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An adjustable payment of 1999 that 380 of tax were added to; by events and by a read.
func taxedFacts() map[string]Fact {
	b := &Breakdown{SubtotalMinor: 1999, DiscountMinor: 200, TaxMinor: 380, ShippingMinor: 500}
	whole := success(2679)
	whole.Breakdown = b
	return map[string]Fact{
		"session": whole, "intent": success(2679), "charge": success(2679), "read": readOf(whole, 1), "expiry": {Status: StatusExpired},
	}
}

// I5: in whatever order its events come, and with a read for every wish, an adjustable payment
// ends with the same facts.
func TestMerge_AdjustableInAnyOrder(t *testing.T) {
	t.Parallel()
	facts := taxedFacts()
	var names []string
	for name := range facts {
		names = append(names, name)
	}
	permute(names, func(order []string) {
		p := Payment{Status: StatusOpen, Currency: "usd", ExpectedMinor: 1999, Adjustable: true}
		wanted := false
		for _, name := range append(order, order...) {
			wanted = p.merge(facts[name]).read || wanted
		}
		if wanted {
			p.merge(facts["read"])
		}
		agreed, _, why := p.agreement()
		if diff := cmp.Diff(facts["session"].Breakdown, p.breakdown()); diff != "" || !agreed || *p.ReceivedMinor != 2679 {
			t.Errorf("%v: agreed %v %s (-want +got)\n%s", order, agreed, why, diff)
		}
	})
}

func permute(names []string, do func([]string)) {
	var walk func(k int)
	walk = func(k int) {
		if k == len(names) {
			do(append([]string(nil), names...))
			return
		}
		for i := k; i < len(names); i++ {
			names[k], names[i] = names[i], names[k]
			walk(k + 1)
			names[k], names[i] = names[i], names[k]
		}
	}
	walk(0)
}

// Agreement of an adjustable payment (I4), row by row.
func TestAgreement_Adjustable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breakdown          *Breakdown
		received, intended int64
		currency           string
		want               Reason
	}{
		"as asked for":          {&Breakdown{SubtotalMinor: 1999}, 1999, 1999, "usd", NoReason},
		"all of it off":         {&Breakdown{SubtotalMinor: 1999, DiscountMinor: 1999}, 0, 0, "usd", NoReason},
		"with everything":       {&Breakdown{1999, 200, 380, 500}, 2679, 2679, "usd", NoReason},
		"another subtotal":      {&Breakdown{1000, 0, 999, 0}, 1999, 1999, "usd", ReasonAmount},
		"it does not add up":    {&Breakdown{1999, 200, 380, 500}, 2678, 2678, "usd", ReasonAmount},
		"nothing is said of it": {nil, 1999, 1999, "usd", ReasonAmount},
		"in another currency":   {&Breakdown{SubtotalMinor: 1999}, 1999, 1999, "eur", ReasonCurrency},
		"captured for less":     {&Breakdown{1999, 200, 380, 500}, 1000, 2679, "usd", ReasonCapture},
	} {
		p := Payment{Currency: "usd", ExpectedMinor: 1999, Adjustable: true, ReceivedMinor: &c.received, IntendedMinor: &c.intended, ReceivedCurrency: &c.currency}
		p.setBreakdown(c.breakdown)
		if agreed, _, why := p.agreement(); why != c.want || agreed != (c.want == NoReason) {
			t.Errorf("%s: agreed %v %q, want %q", name, agreed, why, c.want)
		}
	}
}

// Where nothing may change the total, what an event says of its making is not even noted: it
// would be noted or not by which event came first.
func TestMerge_FixedTotalsKeepNoBreakdown(t *testing.T) {
	t.Parallel()
	p := Payment{Status: StatusOpen, Currency: "usd", ExpectedMinor: 1999}
	p.merge(taxedFacts()["session"])
	if agreed, _, why := p.agreement(); agreed || why != ReasonAmount || p.breakdown() != nil {
		t.Errorf("agreed %v %s, breakdown %v", agreed, why, p.breakdown())
	}
}
