package money_test

import (
	"errors"
	"strings"
	"testing"

	iso "github.com/bojanz/currency"
	"github.com/google/go-cmp/cmp"

	"paidonce/internal/money"
)

func TestParseCurrency(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"usd", "USD", "Usd"} {
		if got, err := money.ParseCurrency(in); err != nil || got != "usd" {
			t.Errorf("ParseCurrency(%q) = %q, %v; want usd", in, got, err)
		}
	}

	// The last is the long s, which upper-cases to an ASCII S.
	for _, in := range []string{"", "us", "usdd", "xyz", " usd", "usd ", "us$", "840", "uſd"} {
		got, err := money.ParseCurrency(in)
		if !errors.Is(err, money.ErrUnknownCurrency) || got != "" {
			t.Errorf("ParseCurrency(%q) = %q, %v; want ErrUnknownCurrency", in, got, err)
			continue
		}
		if in != "" && !strings.Contains(err.Error(), in) {
			t.Errorf("ParseCurrency(%q): error %q does not name it", in, err)
		}
	}
}

// TestDigits pins every currency that has not two decimals. Stored amounts mean what these
// numbers say, so a newer table that changes one must not pass unnoticed.
func TestDigits(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"bif": 0, "clp": 0, "djf": 0, "gnf": 0, "isk": 0, "jpy": 0, "kmf": 0, "krw": 0, "pyg": 0, "rwf": 0,
		"ugx": 0, "uyi": 0, "vnd": 0, "vuv": 0, "xaf": 0, "xof": 0, "xpf": 0,
		"bhd": 3, "iqd": 3, "jod": 3, "kwd": 3, "lyd": 3, "omr": 3, "tnd": 3,
		"clf": 4, "uyw": 4,
	}
	got := map[string]int{}
	for _, code := range iso.GetCurrencyCodes() {
		c, err := money.ParseCurrency(code)
		if err != nil {
			t.Fatalf("ParseCurrency(%q): %v", code, err)
		}
		if c.Digits() != 2 {
			got[string(c)] = c.Digits()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("currencies without two decimals (-want +got):\n%s", diff)
	}
	if got := money.Currency("").Digits(); got != 0 {
		t.Errorf("no currency has %d digits, want 0", got)
	}
}
