package webhooks_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paidonce/webhooks"
)

// What a session that was read says: its success, and nothing else that could be over by the
// time it is applied.
func TestParse_SessionRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		session string
		status  webhooks.Status
		hint    bool
	}{
		"paid":                        {`"status":"complete","payment_status":"paid"`, webhooks.StatusSucceeded, false},
		"nothing to pay":              {`"status":"complete","payment_status":"no_payment_required"`, webhooks.StatusSucceeded, false},
		"the money is to come":        {`"status":"complete","payment_status":"unpaid"`, webhooks.StatusNone, true},
		"an unheard of payment":       {`"status":"complete","payment_status":"promised"`, webhooks.StatusNone, true},
		"expired":                     {`"status":"expired","payment_status":"unpaid"`, webhooks.StatusNone, true},
		"open":                        {`"status":"open","payment_status":"unpaid"`, webhooks.StatusNone, false},
		"open, and nothing to pay":    {`"status":"open","payment_status":"no_payment_required"`, webhooks.StatusNone, false},
		"open, whatever it says":      {`"status":"open","payment_status":"paid"`, webhooks.StatusNone, false},
		"paid, and the status is new": {`"status":"archived","payment_status":"paid"`, webhooks.StatusNone, true},
	} {
		body := fmt.Sprintf(`{"id":"return:cs_1:x","object":"event","type":"checkout.session.read","data":{"object":{"id":"cs_1","object":"checkout.session",
"payment_intent":"pi_1","amount_total":1999,"currency":"usd",%s}}}`, c.session)
		got, err := (&webhooks.Stripe{}).Parse([]byte(body))
		if err != nil || !got.Handled || got.Status != c.status || got.Hint != c.hint {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if diff := cmp.Diff([]string{"cs_1", "pi_1"}, got.Resources); diff != "" {
			t.Errorf("%s: resources (-want +got)\n%s", name, diff)
		}
	}
}

// B20, B24: money as Stripe states it, in our minor units and in the merchant's currency, with
// what it is made of. What cannot be counted is a hint, and never an amount.
func TestParse_Money(t *testing.T) {
	t.Parallel()
	const parts = `"total_details":{"amount_discount":200,"amount_shipping":500,"amount_tax":380}`
	whole := &webhooks.Breakdown{SubtotalMinor: 1999, DiscountMinor: 200, TaxMinor: 380, ShippingMinor: 500}
	for name, c := range map[string]struct {
		session   string
		received  int64
		currency  string // "" for a hint
		breakdown *webhooks.Breakdown
	}{
		"yen":                    {`"amount_total":100,"currency":"JPY"`, 100, "jpy", nil},
		"dinars":                 {`"amount_total":18600,"currency":"kwd"`, 18600, "kwd", nil},
		"krónur":                 {`"amount_total":10000,"currency":"isk"`, 100, "isk", nil},
		"half a króna":           {`"amount_total":10050,"currency":"isk"`, 0, "", nil},
		"ariary":                 {`"amount_total":100,"currency":"mga"`, 10000, "mga", nil},
		"shillings":              {`"amount_total":500,"currency":"ugx"`, 0, "", nil},
		"no currency":            {`"amount_total":500`, 0, "", nil},
		"made up of parts":       {`"amount_subtotal":1999,"amount_total":2679,"currency":"usd",` + parts, 2679, "usd", whole},
		"no subtotal":            {`"amount_total":2679,"currency":"usd",` + parts, 2679, "usd", nil},
		"a part that is no sum":  {`"amount_subtotal":1999,"amount_total":2679,"currency":"usd","total_details":{"amount_discount":"200","amount_tax":380}`, 2679, "usd", nil},
		"nothing to ship":        {`"amount_subtotal":1999,"amount_total":1999,"currency":"usd","total_details":{"amount_discount":0,"amount_shipping":null,"amount_tax":0}`, 1999, "usd", &webhooks.Breakdown{SubtotalMinor: 1999}},
		"parts of krónur":        {`"amount_subtotal":10000,"amount_total":11900,"currency":"isk","total_details":{"amount_discount":0,"amount_tax":1900}`, 119, "isk", &webhooks.Breakdown{SubtotalMinor: 100, TaxMinor: 19}},
		"presented in euro":      {`"amount_total":1999,"currency":"usd","presentment_details":{"presentment_currency":"eur","presentment_amount":1852}`, 1999, "usd", nil},
		"converted to euro":      {`"amount_total":1852,"currency":"eur","currency_conversion":{"amount_total":1999,"source_currency":"usd"}`, 1999, "usd", nil},
		"converted from nothing": {`"amount_total":1852,"currency":"eur","currency_conversion":{}`, 0, "", nil},
	} {
		body := fmt.Sprintf(`{"id":"evt_1","object":"event","type":"checkout.session.completed","data":{"object":{"id":"cs_1","object":"checkout.session",
"status":"complete","payment_status":"paid",%s}}}`, c.session)
		got, err := (&webhooks.Stripe{}).Parse([]byte(body))
		if err != nil || got.ReceivedMinor != c.received || got.IntendedMinor != c.received || got.Currency != c.currency || got.Hint != (c.currency == "") {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if diff := cmp.Diff(c.breakdown, got.Breakdown); diff != "" {
			t.Errorf("%s: breakdown (-want +got)\n%s", name, diff)
		}
	}
}
