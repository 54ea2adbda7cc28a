package orders

// Inside the package, for merge: pure, without a database.

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func success(minor int64) Fact {
	return Fact{Status: StatusSucceeded, ReceivedMinor: minor, IntendedMinor: minor, ReceivedCurrency: "usd"}
}

// readOf makes a statement one that was read, in answer to the n-th wish.
func readOf(f Fact, n int64) Fact { f.Read, f.ReadSeq = true, n; return f }

func TestMerge(t *testing.T) {
	t.Parallel()
	created := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		known    []Fact // merged before, in this order, into an open payment
		fact     Fact
		want     merge
		status   Status
		received int64 // -1 if nothing is known to be received
	}{
		// Statuses rise.
		"processing":                {nil, Fact{Status: StatusProcessing}, merge{changed: true}, StatusProcessing, -1},
		"the same again":            {[]Fact{{Status: StatusFailed}}, Fact{Status: StatusFailed}, merge{}, StatusFailed, -1},
		"a lower one is stale":      {[]Fact{{Status: StatusExpired}}, Fact{Status: StatusProcessing}, merge{stale: true}, StatusExpired, -1},
		"open is lower than failed": {[]Fact{{Status: StatusFailed}}, Fact{Status: StatusOpen}, merge{stale: true}, StatusFailed, -1},
		"success after expiry":      {[]Fact{{Status: StatusExpired}}, success(1999), merge{changed: true}, StatusSucceeded, 1999},
		"expiry after success":      {[]Fact{success(1999)}, Fact{Status: StatusExpired}, merge{stale: true}, StatusSucceeded, 1999},
		"a status nobody knows":     {nil, Fact{Status: "exploded"}, merge{stale: true}, StatusOpen, -1},
		"no claim at all":           {[]Fact{success(1999)}, Fact{}, merge{}, StatusSucceeded, 1999},

		// Successes agree or contradict.
		"a success again":                {[]Fact{success(1999)}, success(1999), merge{}, StatusSucceeded, 1999},
		"another amount asks for a read": {[]Fact{success(1999)}, success(500), merge{read: true}, StatusSucceeded, 1999},
		"another currency too": {
			[]Fact{success(1999)}, Fact{Status: StatusSucceeded, ReceivedMinor: 1999, ReceivedCurrency: "eur"}, merge{read: true}, StatusSucceeded, 1999,
		},
		"a success of nothing": {nil, success(0), merge{changed: true}, StatusSucceeded, 0},

		// Hints are wishes, and may claim something beside.
		"a hint":            {nil, Fact{Hint: true}, merge{read: true}, StatusOpen, -1},
		"a hint that rises": {nil, Fact{Hint: true, Status: StatusFailed}, merge{changed: true, read: true}, StatusFailed, -1},

		// A read decides, unless a later one did.
		"a read corrects":             {[]Fact{success(1999)}, readOf(success(500), 1), merge{changed: true}, StatusSucceeded, 500},
		"a read confirms":             {[]Fact{success(1999)}, readOf(success(1999), 1), merge{changed: true}, StatusSucceeded, 1999},
		"a read without a wish":       {[]Fact{success(1999)}, readOf(success(500), 0), merge{changed: true}, StatusSucceeded, 500},
		"an earlier read is stale":    {[]Fact{readOf(success(500), 2)}, readOf(success(1999), 1), merge{stale: true}, StatusSucceeded, 500},
		"a read of the same wish":     {[]Fact{readOf(success(500), 2)}, readOf(success(1999), 2), merge{changed: true}, StatusSucceeded, 1999},
		"an event never outranks one": {[]Fact{readOf(success(500), 2)}, success(1999), merge{read: true}, StatusSucceeded, 500},
		"a read does not sink":        {[]Fact{success(1999)}, readOf(Fact{Status: StatusCanceled}, 1), merge{changed: true, stale: true}, StatusSucceeded, 1999},

		// When the checkout was made is learned once.
		"the creation":       {nil, Fact{ObjectCreatedAt: created}, merge{changed: true}, StatusOpen, -1},
		"the creation again": {[]Fact{{ObjectCreatedAt: created}}, Fact{ObjectCreatedAt: created.Add(time.Hour)}, merge{}, StatusOpen, -1},
	} {
		p := Payment{Status: StatusOpen}
		for _, f := range test.known {
			p.merge(f)
		}
		got := p.merge(test.fact)
		received := int64(-1)
		if p.ReceivedMinor != nil {
			received = *p.ReceivedMinor
		}
		if got != test.want || p.Status != test.status || received != test.received {
			t.Errorf("%s: got %+v, %s with %d; want %+v, %s with %d", name, got, p.Status, received, test.want, test.status, test.received)
		}
	}
}

// TestMerge_DoesNotAskForTheOrder (I5): facts that agree on the money merge to one payment in
// any order and with any repetition. Facts that do not agree ask for a read in any order.
func TestMerge_DoesNotAskForTheOrder(t *testing.T) {
	t.Parallel()
	created := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		contradict := rapid.Bool().Draw(t, "contradict")
		facts := []Fact{success(1999), {Status: StatusOpen}}
		if contradict {
			facts = append(facts, success(500))
		}
		for _, status := range rapid.SliceOf(rapid.SampledFrom(Statuses()[:5])).Draw(t, "others") {
			facts = append(facts, Fact{Status: status})
		}
		for i := range facts {
			facts[i].ObjectCreatedAt = created
		}
		facts = append(facts, facts[:rapid.IntRange(0, len(facts)).Draw(t, "repeated")]...)

		all := func(facts []Fact) (p Payment, read bool) {
			p.Status = StatusOpen
			for _, f := range facts {
				read = p.merge(f).read || read
			}
			return p, read
		}
		want, read := all(slices.Clone(facts))
		got, again := all(rapid.Permutation(facts).Draw(t, "permuted"))
		if read != contradict || again != contradict {
			t.Fatalf("a read is asked for: %v and %v, want %v", read, again, contradict)
		}
		if contradict {
			want.merge(readOf(success(1999), 1))
			got.merge(readOf(success(1999), 1))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-one order +another)\n%s", diff)
		}
	})
}

// TestAgreement (I4): what is received is held against what was asked for, in one currency.
func TestAgreement(t *testing.T) {
	t.Parallel()
	usd, eur, other := "usd", "eur", int64(500)
	for name, test := range map[string]struct {
		received, intended int64
		currency           string
		accept             *int64
		agreed, accepted   bool
		why                Reason
	}{
		"as asked":               {1999, 1999, usd, nil, true, false, NoReason},
		"one less":               {1998, 1998, usd, nil, false, false, ReasonAmount},
		"one more":               {2000, 2000, usd, nil, false, false, ReasonAmount},
		"a hundredfold":          {199900, 199900, usd, nil, false, false, ReasonAmount},
		"nothing":                {0, 0, usd, nil, false, false, ReasonAmount},
		"captured for less":      {500, 1999, usd, nil, false, false, ReasonCapture},
		"captured for more":      {2999, 1999, usd, nil, false, false, ReasonAmount},
		"another currency":       {1999, 1999, eur, nil, false, false, ReasonCurrency},
		"another of both":        {500, 1999, eur, nil, false, false, ReasonCurrency},
		"accepted":               {500, 1999, usd, &other, true, true, NoReason},
		"another was accepted":   {400, 400, usd, &other, false, false, ReasonAmount},
		"accepted, then in full": {1999, 1999, usd, &other, true, false, NoReason},
	} {
		p := Payment{
			Currency: "usd", ExpectedMinor: 1999, Status: StatusSucceeded,
			ReceivedMinor: &test.received, IntendedMinor: &test.intended, ReceivedCurrency: &test.currency,
		}
		if test.accept != nil {
			p.AcceptedMinor, p.AcceptedCurrency = test.accept, &usd
		}
		agreed, accepted, why := p.agreement()
		if agreed != test.agreed || accepted != test.accepted || why != test.why {
			t.Errorf("%s: got %v, %v, %q; want %v, %v, %q", name, agreed, accepted, why, test.agreed, test.accepted, test.why)
		}
	}
}

// TestFacts_Returned: all of a payment's money is back when as much was refunded as received;
// a free order has no money to give back.
func TestFacts_Returned(t *testing.T) {
	t.Parallel()
	usd := "usd"
	for _, test := range []struct {
		received, refunded int64
		want               bool
	}{{1999, 0, false}, {1999, 1998, false}, {1999, 1999, true}, {0, 0, false}} {
		p := Payment{Status: StatusSucceeded, Currency: "usd", ReceivedMinor: &test.received, ReceivedCurrency: &usd, RefundedMinor: test.refunded}
		if got := p.facts().Returned; got != test.want {
			t.Errorf("%d of %d refunded: returned %v, want %v", test.refunded, test.received, got, test.want)
		}
	}
}
