package stripesim

import (
	"fmt"
	"strings"
)

// amountText writes minor units for a person to read. Which currencies have no or three decimals is Stripe's list, which
// is not ISO's (https://docs.stripe.com/currencies#zero-decimal).
func amountText(minor int64, currency string) string {
	code := strings.ToUpper(currency)
	switch code {
	case "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF":
		return fmt.Sprintf("%d %s", minor, code)
	case "BHD", "JOD", "KWD", "OMR", "TND":
		return fmt.Sprintf("%d.%03d %s", minor/1000, minor%1000, code)
	default:
		return fmt.Sprintf("%d.%02d %s", minor/100, minor%100, code)
	}
}
