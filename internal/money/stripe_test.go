package money_test

import (
	"errors"
	"testing"

	iso "github.com/bojanz/currency"
	"pgregory.net/rapid"

	"paidonce/internal/money"
)

// B20: a fixed factor of 100 charges yen a hundredfold and dinars a tenth, and agrees with
// itself on the way back.
func TestB20_MinorUnitsAtStripe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		decimal  string
		currency money.Currency
		want     int64
	}{
		{"19.99", "usd", 1999},
		{"100", "jpy", 100},
		{"18.600", "kwd", 18600},
		{"100", "isk", 10000},
		{"100.00", "mga", 100},
		{"5.00", "huf", 500},
		{"800.00", "twd", 80000},
	} {
		a, err := money.Parse(c.decimal, c.currency)
		if err != nil {
			t.Fatal(err)
		}
		got, err := money.ToStripe(a)
		if err != nil || got != c.want {
			t.Errorf("ToStripe(%s) = %d, %v; want %d", a, got, err, c.want)
		}
		back, err := money.FromStripe(c.want, a.Currency.Code())
		if err != nil || back != a {
			t.Errorf("FromStripe(%d, %s) = %s, %v; want %s", c.want, a.Currency.Code(), back, err, a)
		}
	}
}

func TestToStripe_RefusesWhatCannotBeTold(t *testing.T) {
	t.Parallel()
	for _, a := range []money.Amount{
		{Minor: 18601, Currency: "kwd"}, // the last decimal must be 0
		{Minor: 150, Currency: "mga"},   // no half ariary
		{Minor: 500, Currency: "ugx"},   // contradictory
		{Minor: 500, Currency: "iqd"},   // three decimals, not listed
		{Minor: 500, Currency: "clf"},   // four
		{Minor: 500, Currency: ""},
	} {
		if got, err := money.ToStripe(a); !errors.Is(err, money.ErrNotAtStripe) {
			t.Errorf("ToStripe(%s) = %d, %v; want ErrNotAtStripe", a, got, err)
		}
	}
	if _, err := money.ToStripe(money.Amount{Minor: 1 << 62, Currency: "isk"}); !errors.Is(err, money.ErrOverflow) {
		t.Errorf("a hundredfold that does not fit: %v, want ErrOverflow", err)
	}
	if _, err := money.FromStripe(150, "isk"); !errors.Is(err, money.ErrNotAtStripe) {
		t.Errorf("FromStripe(150 isk): %v, want ErrNotAtStripe", err)
	}
	if _, err := money.FromStripe(1, "xxxx"); !errors.Is(err, money.ErrUnknownCurrency) {
		t.Errorf("FromStripe(1 xxxx): %v, want ErrUnknownCurrency", err)
	}
}

// What can be told comes back as it was, for every currency there is.
func TestStripe_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.SampledFrom(iso.GetCurrencyCodes()).Draw(t, "currency")
		c, err := money.ParseCurrency(code)
		if err != nil {
			t.Fatal(err)
		}
		a := money.Amount{Minor: rapid.Int64Range(0, 1e15).Draw(t, "minor"), Currency: c}
		told, err := money.ToStripe(a)
		if err != nil {
			return
		}
		if back, err := money.FromStripe(told, code); err != nil || back != a {
			t.Fatalf("%s told as %d came back as %s, %v", a, told, back, err)
		}
	})
}
