package orders

// Inside the package, for merge and for what is news: pure, without a database.

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// returning is a read of a success that says what went back.
func returning(n int64, r Returns) Fact {
	f := readOf(success(1999), n)
	f.Returns = &r
	return f
}

// disputes are a payment's, by their statuses.
func disputes(statuses ...string) (all []PaymentDispute) {
	for _, status := range statuses {
		all = append(all, PaymentDispute{Status: status})
	}
	return all
}

// What went back is the newest read's, and nobody else's.
func TestMerge_Returns(t *testing.T) {
	t.Parallel()
	part, all := Returns{RefundedMinor: 500}, Returns{RefundedMinor: 1999}
	fromEvent := returning(0, all)
	fromEvent.Read = false
	for name, test := range map[string]struct {
		known    []Fact
		fact     Fact
		want     merge
		refunded int64
	}{
		"a read with the success":       {nil, returning(1, part), merge{changed: true, returns: true}, 500},
		"after the success":             {[]Fact{success(1999)}, returning(1, part), merge{changed: true, returns: true}, 500},
		"more":                          {[]Fact{returning(1, part)}, returning(2, all), merge{changed: true, returns: true}, 1999},
		"less, since one failed":        {[]Fact{returning(1, all)}, returning(2, part), merge{changed: true, returns: true}, 500},
		"the same":                      {[]Fact{returning(1, part)}, returning(1, part), merge{returns: true}, 500},
		"the same, to a newer wish":     {[]Fact{returning(1, part)}, returning(2, part), merge{changed: true, returns: true}, 500},
		"of the same wish":              {[]Fact{returning(1, part)}, returning(1, all), merge{changed: true, returns: true}, 1999},
		"a stale read":                  {[]Fact{returning(2, all)}, returning(1, part), merge{}, 1999},
		"a stale read of another sum":   {[]Fact{returning(2, all)}, readOf(success(500), 1), merge{stale: true}, 1999},
		"a read that does not say":      {[]Fact{returning(1, part)}, readOf(success(1999), 2), merge{changed: true}, 500},
		"an event that says":            {[]Fact{success(1999)}, fromEvent, merge{}, 0},
		"an event after the read":       {[]Fact{returning(1, part)}, success(1999), merge{}, 500},
		"a hint after the read":         {[]Fact{returning(1, part)}, Fact{Hint: true}, merge{read: true}, 500},
		"the success after the returns": {[]Fact{returning(1, all)}, success(1999), merge{}, 1999},
	} {
		p := Payment{Status: StatusOpen}
		for _, f := range test.known {
			p.merge(f)
		}
		got := p.merge(test.fact)
		if got != test.want || p.RefundedMinor != test.refunded {
			t.Errorf("%s: got %+v with %d refunded, want %+v with %d", name, got, p.RefundedMinor, test.want, test.refunded)
		}
	}

	// A read of a checkout that is not paid has nothing to say of returns.
	p, open := Payment{Status: StatusOpen}, Fact{Read: true, ReadSeq: 1, Returns: &all}
	if got := p.merge(open); got != (merge{changed: true}) || p.RefundedMinor != 0 {
		t.Errorf("an open checkout: got %+v with %d refunded, want none", got, p.RefundedMinor)
	}
}

// Of all disputes, those that hold the money or have lost it matter to the order.
func TestSetReturns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disputes   []PaymentDispute
		open, lost bool
	}{
		"none":                    {nil, false, false},
		"needs a response":        {disputes("needs_response"), true, false},
		"under review":            {disputes("under_review"), true, false},
		"won":                     {disputes("won"), false, false},
		"lost":                    {disputes("lost"), false, true},
		"an inquiry":              {disputes("warning_needs_response"), false, false},
		"an inquiry, answered":    {disputes("warning_under_review"), false, false},
		"an inquiry, over":        {disputes("warning_closed"), false, false},
		"prevented":               {disputes("prevented"), false, false},
		"refunded instead":        {disputes("charge_refunded"), false, false},
		"a word nobody knows":     {disputes("exploded"), false, false},
		"two, won and open":       {disputes("won", "needs_response"), true, false},
		"two, lost and won":       {disputes("lost", "won"), false, true},
		"two, lost and open":      {disputes("lost", "under_review"), true, true},
		"an inquiry beside a won": {disputes("warning_closed", "won"), false, false},
	} {
		var p Payment
		r := Returns{ChargedCurrency: "usd", Disputes: test.disputes}
		if !p.setReturns(r) {
			t.Errorf("%s: the currency is news, and nothing changed", name)
		}
		if p.DisputeOpen != test.open || p.DisputeLost != test.lost || p.ChargedCurrency == nil || *p.ChargedCurrency != "usd" {
			t.Errorf("%s: open %v, lost %v, in %v; want %v, %v, in usd", name, p.DisputeOpen, p.DisputeLost, p.ChargedCurrency, test.open, test.lost)
		}
		if p.setReturns(r) {
			t.Errorf("%s: the same again changed something", name)
		}
		if !p.setReturns(Returns{RefundedMinor: 1, Disputes: test.disputes}) || p.ChargedCurrency == nil {
			t.Errorf("%s: a refund changed nothing, or the currency is forgotten: %+v", name, p)
		}
	}
}

// Every change of a refund's status, and what it is to the buyer.
func TestRefundNews(t *testing.T) {
	t.Parallel()
	statuses := []string{"pending", "requires_action", "succeeded", "failed", "canceled"}
	want := map[string]map[string]ReturnEvent{ // before, now; what is missing is no news
		"":                {"succeeded": RefundSucceeded},
		"pending":         {"succeeded": RefundSucceeded, "failed": RefundFailed, "canceled": RefundFailed},
		"requires_action": {"succeeded": RefundSucceeded, "failed": RefundFailed, "canceled": RefundFailed},
		"succeeded":       {"failed": RefundFailed, "canceled": RefundFailed},
		"failed":          {"succeeded": RefundSucceeded},
		"canceled":        {"succeeded": RefundSucceeded},
	}
	for was := range want {
		for _, now := range statuses {
			if was == now {
				continue // is not asked
			}
			if got := refundNews(was, now); got != want[was][now] {
				t.Errorf("from %q to %s: got %q, want %q", was, now, got, want[was][now])
			}
		}
	}
}

// Every change of a dispute's status. One that was won before we knew of it is no news, and an
// inquiry never is.
func TestDisputeNews(t *testing.T) {
	t.Parallel()
	quiet := []string{"warning_needs_response", "warning_under_review", "warning_closed", "prevented", "exploded"}
	fromQuiet := map[string]ReturnEvent{"needs_response": DisputeOpened, "under_review": DisputeOpened, "lost": DisputeLost}
	want := map[string]map[string]ReturnEvent{
		"":               fromQuiet,
		"needs_response": {"won": DisputeWon, "lost": DisputeLost},
		"under_review":   {"won": DisputeWon, "lost": DisputeLost},
		"won":            fromQuiet,
		"lost":           {"needs_response": DisputeOpened, "under_review": DisputeOpened, "won": DisputeWon},
	}
	for _, status := range quiet {
		want[status] = fromQuiet
	}
	for was := range want {
		for now := range want {
			if now == "" {
				continue
			}
			if got := disputeNews(PaymentDispute{Status: was}, PaymentDispute{Status: now}); got != want[was][now] {
				t.Errorf("from %q to %s: got %q, want %q", was, now, got, want[was][now])
			}
		}
	}
}

// The key of a refund is made of its payment and the wish; the same wish is the same refund.
func TestRefundWish_ID(t *testing.T) {
	t.Parallel()
	one, other := uuid.UUID{1}, uuid.UUID{2}
	wishes := []RefundWish{
		{}, {AmountMinor: 500}, {AmountMinor: 501}, {Key: "a"}, {Key: "b"},
	}
	seen := map[string]bool{}
	for _, wish := range wishes {
		id := wish.id(one)
		named := wish
		named.Payment = "cs_1" // how it is said changes nothing
		if again := named.id(one); again != id {
			t.Errorf("%+v: %s, then %s", wish, id, again)
		}
		surplus := wish
		surplus.Surplus = true // dropped, it can still be wanted as such
		for _, id := range []string{id.String(), wish.id(other).String(), surplus.id(one).String()} {
			if seen[id] {
				t.Errorf("%+v has the id of another refund", wish)
			}
			seen[id] = true
		}
	}
	if (RefundWish{Key: "a", AmountMinor: 500}).id(one) != (RefundWish{Key: "a"}).id(one) {
		t.Error("under a key, the amount is no part of it")
	}
}

// In a currency of their own, buyers are refunded what they were charged; the rest is checked
// by the provider.
func TestAmountToRefund(t *testing.T) {
	t.Parallel()
	usd, eur := "usd", "eur"
	pay := func(received, refunded int64, charged *string) Payment {
		return Payment{Status: StatusSucceeded, Currency: "usd", ReceivedMinor: &received, ReceivedCurrency: &usd, RefundedMinor: refunded, ChargedCurrency: charged}
	}
	for name, test := range map[string]struct {
		payment Payment
		wish    int64
		want    string // an amount, or an error
	}{
		"all":                  {pay(1999, 0, &usd), 0, "19.99 USD"},
		"all that is left":     {pay(1999, 500, &usd), 0, "14.99 USD"},
		"a part":               {pay(1999, 500, &usd), 700, "7.00 USD"},
		"exactly what is left": {pay(1999, 500, &usd), 1499, "14.99 USD"},
		"one too many":         {pay(1999, 500, &usd), 1500, "amount: 1500 is more than the 1499 that are left"},
		"never read":           {pay(1999, 0, nil), 700, "7.00 USD"},
		"nothing left":         {pay(1999, 1999, &usd), 0, ErrNothingToRefund.Error()},
		"more went than came":  {pay(1999, 2500, &usd), 0, ErrNothingToRefund.Error()},
		"free":                 {pay(0, 0, nil), 0, ErrNothingToRefund.Error()},
		"not paid":             {Payment{Status: StatusOpen}, 0, ErrNothingToRefund.Error()},
		"converted, all":       {pay(2150, 0, &eur), 0, "21.50 USD"},
		"converted, a part":    {pay(2150, 537, &eur), 700, "7.00 EUR"},
		"converted, whatever":  {pay(2150, 537, &eur), 99999, "999.99 EUR"},
		"converted, none left": {pay(2150, 2150, &eur), 700, ErrNothingToRefund.Error()},
		"lost to the bank":     {Payment{Status: StatusSucceeded, Currency: "usd", ReceivedMinor: new(int64(1999)), ReceivedCurrency: &usd, DisputeLost: true}, 0, ErrNothingToRefund.Error()},
		"in a dispute (yet)":   {Payment{Status: StatusSucceeded, Currency: "usd", ReceivedMinor: new(int64(1999)), ReceivedCurrency: &usd, DisputeOpen: true}, 0, "19.99 USD"},
	} {
		amount, err := amountToRefund(test.payment, RefundWish{AmountMinor: test.wish})
		got := amount.String()
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
