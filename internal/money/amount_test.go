package money_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	iso "github.com/bojanz/currency"
	"pgregory.net/rapid"

	"paidonce/internal/money"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in       string
		currency money.Currency
		want     int64
	}{
		{"19.99", "usd", 1999},
		{"8.20", "usd", 820},
		{"8.2", "usd", 820},
		{"8", "usd", 800},
		{"0", "usd", 0},
		{"0.00", "usd", 0},
		{"0.01", "usd", 1},
		{"007.50", "eur", 750},
		{"19.99", "USD", 1999}, // the currency comes out in lower case all the same
		{"100", "jpy", 100},
		{"18.600", "kwd", 18600},
		{"18.6", "kwd", 18600},
		{"1.0001", "clf", 10001},
		// Above 2^53, where a float would lose the last digit.
		{"90071992547409.93", "usd", 9007199254740993},
		{"92233720368547758.07", "usd", math.MaxInt64},
		{"9223372036854775807", "jpy", math.MaxInt64},
	} {
		want := money.Amount{Minor: tc.want, Currency: money.Currency(strings.ToLower(string(tc.currency)))}
		if got, err := money.Parse(tc.in, tc.currency); err != nil || got != want {
			t.Errorf("Parse(%q, %s) = %+v, %v; want %+v", tc.in, tc.currency, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in       string
		currency money.Currency
		want     error
	}{
		{"", "usd", money.ErrNotDecimal},
		{".", "usd", money.ErrNotDecimal},
		{".99", "usd", money.ErrNotDecimal},
		{"19.", "usd", money.ErrNotDecimal},
		{"100.", "jpy", money.ErrNotDecimal},
		{"1.2.3", "usd", money.ErrNotDecimal},
		{"-19.99", "usd", money.ErrNotDecimal},
		{"+19.99", "usd", money.ErrNotDecimal},
		{"19.-9", "usd", money.ErrNotDecimal},
		{" 19.99", "usd", money.ErrNotDecimal},
		{"19.99 ", "usd", money.ErrNotDecimal},
		{"19.99\n", "usd", money.ErrNotDecimal},
		{"1 999.00", "usd", money.ErrNotDecimal},
		{"1,999.00", "usd", money.ErrNotDecimal},
		{"19,99", "eur", money.ErrNotDecimal},
		{"1_999", "usd", money.ErrNotDecimal},
		{"1e3", "usd", money.ErrNotDecimal},
		{"0x10", "usd", money.ErrNotDecimal},
		{"NaN", "usd", money.ErrNotDecimal},
		{"Inf", "usd", money.ErrNotDecimal},
		{"١٩", "usd", money.ErrNotDecimal}, // digits, but not ASCII ones
		{"19.999", "usd", money.ErrTooManyDigits},
		{"19.990", "usd", money.ErrTooManyDigits},
		{"100.0", "jpy", money.ErrTooManyDigits},
		{"18.6000", "kwd", money.ErrTooManyDigits},
		{"92233720368547758.08", "usd", money.ErrOverflow},
		{"9223372036854775808", "jpy", money.ErrOverflow},
		{strings.Repeat("9", 10_000), "usd", money.ErrOverflow},
		{"19.99", "", money.ErrUnknownCurrency},
		{"19.99", "xyz", money.ErrUnknownCurrency},
	} {
		got, err := money.Parse(tc.in, tc.currency)
		if !errors.Is(err, tc.want) || got != (money.Amount{}) {
			t.Errorf("Parse(%.40q, %s) = %+v, %v; want %v", tc.in, tc.currency, got, err, tc.want)
			continue
		}
		if len(err.Error()) > 200 {
			t.Errorf("Parse(%.40q, %s): the error repeats %d bytes of input", tc.in, tc.currency, len(err.Error()))
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   money.Amount
		want string
	}{
		{money.Amount{Minor: 1999, Currency: "usd"}, "19.99 USD"},
		{money.Amount{Minor: 820, Currency: "usd"}, "8.20 USD"},
		{money.Amount{Minor: 5, Currency: "usd"}, "0.05 USD"},
		{money.Amount{Minor: 0, Currency: "usd"}, "0.00 USD"},
		{money.Amount{Minor: -5, Currency: "eur"}, "-0.05 EUR"},
		{money.Amount{Minor: -1999, Currency: "eur"}, "-19.99 EUR"},
		{money.Amount{Minor: 100, Currency: "jpy"}, "100 JPY"},
		{money.Amount{Minor: 0, Currency: "jpy"}, "0 JPY"},
		{money.Amount{Minor: 18600, Currency: "kwd"}, "18.600 KWD"},
		{money.Amount{Minor: 7, Currency: "kwd"}, "0.007 KWD"},
		{money.Amount{Minor: math.MaxInt64, Currency: "usd"}, "92233720368547758.07 USD"},
		{money.Amount{Minor: math.MinInt64, Currency: "usd"}, "-92233720368547758.08 USD"},
		// No currency: the minor units as they are.
		{money.Amount{Minor: 1999}, "1999"},
		{money.Amount{Minor: 1999, Currency: "xyz"}, "1999 XYZ"},
	} {
		if got := tc.in.String(); got != tc.want {
			t.Errorf("%#v prints %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in     money.Amount
		locale string
		want   string
	}{
		{money.Amount{Minor: 1999, Currency: "usd"}, "en", "$19.99"},
		{money.Amount{Minor: -1999, Currency: "usd"}, "en", "-$19.99"},
		{money.Amount{Minor: 123456789, Currency: "usd"}, "en-US", "$1,234,567.89"},
		{money.Amount{Minor: 820, Currency: "eur"}, "de", "8,20\u00a0€"},
		{money.Amount{Minor: 123456, Currency: "eur"}, "de_DE", "1.234,56\u00a0€"},
		{money.Amount{Minor: 123456, Currency: "eur"}, "fr", "1\u202f234,56\u00a0€"},
		{money.Amount{Minor: 100, Currency: "jpy"}, "en", "¥100"},
		{money.Amount{Minor: 18600, Currency: "kwd"}, "en", "KWD\u00a018.600"},
		{money.Amount{Minor: math.MaxInt64, Currency: "usd"}, "en", "$92,233,720,368,547,758.07"},
		{money.Amount{Minor: math.MinInt64, Currency: "usd"}, "en", "-$92,233,720,368,547,758.08"},
		// What nobody has heard of is shown as en.
		{money.Amount{Minor: 1999, Currency: "usd"}, "", "$19.99"},
		{money.Amount{Minor: 1999, Currency: "usd"}, "tlh", "$19.99"},
		{money.Amount{Minor: 1999, Currency: "usd"}, "../../etc", "$19.99"},
		{money.Amount{Minor: 1999, Currency: "usd"}, "_DE", "$19.99"},
		// No currency: the plain form.
		{money.Amount{Minor: 1999, Currency: "xyz"}, "en", "1999 XYZ"},
		{money.Amount{Minor: 1999}, "de", "1999"},
	} {
		if got := tc.in.Format(tc.locale); got != tc.want {
			t.Errorf("%s in %q is %+q, want %+q", tc.in, tc.locale, got, tc.want)
		}
	}
}

// TestOrderTotal is the sum every order makes: two lines, fixed numbers.
func TestOrderTotal(t *testing.T) {
	t.Parallel()
	total := money.Amount{Currency: "usd"}
	for _, line := range []struct {
		unit     int64
		quantity int
	}{
		{1999, 3}, // 59.97
		{820, 2},  // 16.40
	} {
		price, err := money.Amount{Minor: line.unit, Currency: "usd"}.Mul(line.quantity)
		if err != nil {
			t.Fatal(err)
		}
		if total, err = total.Add(price); err != nil {
			t.Fatal(err)
		}
	}
	if want := (money.Amount{Minor: 7637, Currency: "usd"}); !total.Equal(want) {
		t.Errorf("3 × 19.99 and 2 × 8.20 make %s, want %s", total, want)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	usd := func(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "usd"} }
	for _, tc := range []struct {
		a, b money.Amount
		want money.Amount
		err  error
	}{
		{usd(1999), usd(820), usd(2819), nil},
		{usd(1999), usd(-1999), usd(0), nil},
		{usd(math.MaxInt64), usd(0), usd(math.MaxInt64), nil},
		{usd(math.MaxInt64 - 1), usd(1), usd(math.MaxInt64), nil},
		{usd(math.MaxInt64), usd(1), money.Amount{}, money.ErrOverflow},
		{usd(1), usd(math.MaxInt64), money.Amount{}, money.ErrOverflow},
		{usd(math.MinInt64 + 1), usd(-1), usd(math.MinInt64), nil},
		{usd(math.MinInt64), usd(-1), money.Amount{}, money.ErrOverflow},
		{usd(-1), usd(math.MinInt64), money.Amount{}, money.ErrOverflow},
		{usd(math.MaxInt64), usd(math.MinInt64), usd(-1), nil},
		{usd(1), money.Amount{Minor: 1, Currency: "eur"}, money.Amount{}, money.ErrMixedCurrencies},
		{money.Amount{}, usd(1), money.Amount{}, money.ErrMixedCurrencies},
	} {
		got, err := tc.a.Add(tc.b)
		if !errors.Is(err, tc.err) || got != tc.want {
			t.Errorf("%s + %s = %s, %v; want %s, %v", tc.a, tc.b, got, err, tc.want, tc.err)
		}
	}
}

func TestMul(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		minor    int64
		quantity int
		want     int64
		err      error
	}{
		{1999, 0, 0, nil},
		{1999, 1, 1999, nil},
		{1999, 1000, 1999000, nil},
		{0, math.MaxInt, 0, nil},
		{-820, 2, -1640, nil},
		{math.MaxInt64, 1, math.MaxInt64, nil},
		{math.MaxInt64, 2, 0, money.ErrOverflow},
		{math.MaxInt64/2 + 1, 2, 0, money.ErrOverflow},
		{1 << 62, 4, 0, money.ErrOverflow}, // wraps to exactly 0
		{math.MinInt64, 1, math.MinInt64, nil},
		{math.MinInt64, 2, 0, money.ErrOverflow},
		{1999, -1, 0, money.ErrNegativeQuantity},
		{math.MinInt64, -1, 0, money.ErrNegativeQuantity},
	} {
		got, err := money.Amount{Minor: tc.minor, Currency: "usd"}.Mul(tc.quantity)
		if !errors.Is(err, tc.err) || got.Minor != tc.want || err == nil && got.Currency != "usd" {
			t.Errorf("%d × %d = %+v, %v; want %d, %v", tc.minor, tc.quantity, got, err, tc.want, tc.err)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	a := money.Amount{Minor: 1999, Currency: "usd"}
	for _, tc := range []struct {
		b    money.Amount
		want bool
	}{
		{money.Amount{Minor: 1999, Currency: "usd"}, true},
		{money.Amount{Minor: 1998, Currency: "usd"}, false},
		{money.Amount{Minor: 1999, Currency: "eur"}, false},
	} {
		if got := a.Equal(tc.b); got != tc.want {
			t.Errorf("%s equal to %s: %t, want %t", a, tc.b, got, tc.want)
		}
	}
	zero := money.Amount{Currency: "usd"}
	if zero.Equal(money.Amount{Currency: "eur"}) {
		t.Error("zero usd equals zero eur")
	}
}

// TestB58CentsAreNeverCutOff: 19.99 * 100 is 1998.9999… and 8.20 * 100 is 819.9999… to a
// float, and an integer made of them by truncation is a cent short. Every amount from 0.01 to
// 100.00 is read, printed and read back here.
func TestB58CentsAreNeverCutOff(t *testing.T) {
	t.Parallel()
	for decimal, want := range map[string]int64{"19.99": 1999, "8.20": 820, "0.29": 29, "1.15": 115, "100.00": 10000} {
		if got, err := money.Parse(decimal, "usd"); err != nil || got.Minor != want {
			t.Errorf("Parse(%q, usd) = %d, %v; want %d", decimal, got.Minor, err, want)
		}
	}
	for minor := int64(1); minor <= 10_000; minor++ {
		roundTrip(t, money.Amount{Minor: minor, Currency: "usd"})
	}
}

// TestRoundTrip: what String prints, Parse reads as the same amount, whatever the currency.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := money.ParseCurrency(rapid.SampledFrom(iso.GetCurrencyCodes()).Draw(t, "currency"))
		if err != nil {
			t.Fatal(err)
		}
		minor := rapid.OneOf(
			rapid.Int64Range(1, 10_000),
			rapid.Int64Range(0, math.MaxInt64),
		).Draw(t, "minor")
		roundTrip(t, money.Amount{Minor: minor, Currency: c})
	})
}

func roundTrip(t rapid.TB, want money.Amount) {
	t.Helper()
	number, code, _ := strings.Cut(want.String(), " ")
	c, err := money.ParseCurrency(code)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := money.Parse(number, c); err != nil || got != want {
		t.Fatalf("%d %s prints %q, which reads as %+v, %v", want.Minor, want.Currency, want.String(), got, err)
	}
}

// FuzzFormat: any text a browser may send as a locale yields something to show.
func FuzzFormat(f *testing.F) {
	for _, locale := range []string{"", "en", "de-DE", "sr_Latn_RS", "zh-Hant-TW", "es-AR", "de-DE,de;q=0.9", "-", "_DE", "xx-yyyy-zz", "\xff"} {
		f.Add(locale, int64(1999))
	}
	f.Fuzz(func(t *testing.T, locale string, minor int64) {
		if got := (money.Amount{Minor: minor, Currency: "usd"}).Format(locale); got == "" {
			t.Errorf("Format(%q) of %d is empty", locale, minor)
		}
	})
}

// FuzzParse: nothing panics, and what is accepted prints as the same number.
func FuzzParse(f *testing.F) {
	for _, decimal := range []string{"19.99", "8.20", "100", "18.600", "-1", "1e3", "", ".", "92233720368547758.08"} {
		f.Add(decimal, "usd")
	}
	f.Fuzz(func(t *testing.T, decimal, currency string) {
		a, err := money.Parse(decimal, money.Currency(currency))
		if err != nil {
			return
		}
		if a.Minor < 0 {
			t.Errorf("Parse(%q, %q) is negative: %s", decimal, currency, a)
		}
		roundTrip(t, a)
	})
}
