package provider

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stripe/stripe-go/v79"

	"paidonce/internal/money"
)

// OrderMarker is the metadata key under which our objects at a provider name their order.
// Anybody with the API key can write it there, so it is a hint for looking, never proof.
const OrderMarker = "paidonce_order"

// PaymentMarker is the metadata key under which a checkout names its payment: of an order's
// several checkouts, it tells the one that a call made.
const PaymentMarker = "paidonce_payment"

// CheckoutRequest is a checkout session to be created: one payment of one order.
type CheckoutRequest struct {
	PaymentID  uuid.UUID
	OrderID    uuid.UUID
	Email      string
	Items      []CheckoutItem
	SuccessURL string // {CHECKOUT_SESSION_ID} in it is replaced by Stripe
	CancelURL  string

	// What may change the total. Tax is added to the prices, which are told as net.
	PromotionCodes bool
	AutomaticTax   bool
}

// CheckoutItem is a line of the checkout, with the price that we store, not one of the
// provider's catalog.
type CheckoutItem struct {
	Name     string
	Quantity int
	Unit     money.Amount
}

// CheckoutKey is the key of the call that opens a payment's checkout.
func CheckoutKey(paymentID uuid.UUID) string { return string(OpCheckout) + ":" + paymentID.String() }

// Call freezes the request. The intent carries our markers too: Stripe copies nothing from
// a session's metadata to it (https://docs.stripe.com/metadata).
func (r CheckoutRequest) Call() Call {
	marker := map[string]string{OrderMarker: r.OrderID.String(), PaymentMarker: r.PaymentID.String()}
	params := &stripe.CheckoutSessionParams{
		Mode:              stripe.String(string(stripe.CheckoutSessionModePayment)),
		ClientReferenceID: stripe.String(r.OrderID.String()),
		CustomerEmail:     stripe.String(r.Email),
		SuccessURL:        stripe.String(r.SuccessURL),
		CancelURL:         stripe.String(r.CancelURL),
		Metadata:          marker,
		PaymentIntentData: &stripe.CheckoutSessionPaymentIntentDataParams{Metadata: marker},
	}
	if r.PromotionCodes {
		params.AllowPromotionCodes = stripe.Bool(true)
	}
	if r.AutomaticTax {
		params.AutomaticTax = &stripe.CheckoutSessionAutomaticTaxParams{Enabled: stripe.Bool(true)}
	}
	for _, item := range r.Items {
		params.LineItems = append(params.LineItems, r.line(item))
	}
	return Call{
		IdempotencyKey: CheckoutKey(r.PaymentID),
		Provider:       "stripe", Operation: OpCheckout, SubjectID: r.PaymentID,
		Path: "/v1/checkout/sessions", Params: freeze(params),
	}
}

// line is an item in Stripe's minor units, which are not everywhere ours.
func (r CheckoutRequest) line(item CheckoutItem) *stripe.CheckoutSessionLineItemParams {
	told, err := money.ToStripe(item.Unit)
	if err != nil {
		panic("bug: a price is checked before it is asked for: " + err.Error())
	}
	price := &stripe.CheckoutSessionLineItemPriceDataParams{
		Currency:    stripe.String(string(item.Unit.Currency)),
		UnitAmount:  stripe.Int64(told),
		ProductData: &stripe.CheckoutSessionLineItemPriceDataProductDataParams{Name: stripe.String(item.Name)},
	}
	if r.AutomaticTax {
		price.TaxBehavior = stripe.String(string(stripe.PriceTaxBehaviorExclusive))
	}
	return &stripe.CheckoutSessionLineItemParams{Quantity: stripe.Int64(int64(item.Quantity)), PriceData: price}
}

// Session reads the answer to a checkout call.
func (a Answer) Session() (SessionAnswer, error) {
	var session struct {
		ID            string          `json:"id"`
		Object        string          `json:"object"`
		URL           string          `json:"url"`
		Created       int64           `json:"created"`
		PaymentIntent json.RawMessage `json:"payment_intent"`
	}
	if err := json.Unmarshal(a.Body, &session); err != nil {
		return SessionAnswer{}, fmt.Errorf("%w: %w", errNoSession, err)
	}
	if session.Object != "checkout.session" || session.ID == "" {
		return SessionAnswer{}, errNoSession
	}
	answer := SessionAnswer{
		ID: session.ID, URL: session.URL, Resources: []string{session.ID},
		CreatedAt: time.Unix(session.Created, 0).UTC(),
	}
	// An older API version names the intent at once.
	var intent string
	if json.Unmarshal(session.PaymentIntent, &intent) == nil && intent != "" {
		answer.Resources = append(answer.Resources, intent)
	}
	return answer, nil
}

// FulfillRequest writes onto a PaymentIntent which order and licenses it paid for.
type FulfillRequest struct {
	OrderID         uuid.UUID
	PaymentIntentID string
	LicenseIDs      []uuid.UUID
}

// Stripe's limits on metadata: 50 keys, 500 characters a value
// (https://docs.stripe.com/api/metadata). A license id has 36 characters, so thirteen of
// them fit a value with their commas; some keys are left for the merchant's own.
const (
	idsPerValue   = 13
	maxValues     = 40
	licensePrefix = "paidonce_licenses"
)

// Call freezes the request under the key fulfill:<order id>.
func (r FulfillRequest) Call() Call {
	metadata := map[string]string{
		OrderMarker:              r.OrderID.String(),
		"paidonce_license_count": strconv.Itoa(len(r.LicenseIDs)),
	}
	ids := make([]string, len(r.LicenseIDs))
	for i, id := range r.LicenseIDs {
		ids[i] = id.String()
	}
	sort.Strings(ids)
	for n := 0; n < maxValues && len(ids) > 0; n++ {
		take := min(idsPerValue, len(ids))
		key := licensePrefix
		if n > 0 {
			key += "_" + strconv.Itoa(n+1)
		}
		metadata[key], ids = strings.Join(ids[:take], ","), ids[take:]
	}
	return Call{
		IdempotencyKey: string(OpFulfill) + ":" + r.OrderID.String(),
		Provider:       "stripe", Operation: OpFulfill, SubjectID: r.OrderID,
		Path: "/v1/payment_intents/" + r.PaymentIntentID, Params: freeze(&stripe.PaymentIntentParams{Metadata: metadata}),
	}
}
