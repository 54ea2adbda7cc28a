package stripesim

// session is a Checkout Session in payment mode (https://docs.stripe.com/api/checkout/sessions/object). Fields stand in
// the order in which Stripe sends them: id, object, then the alphabet.
type session struct {
	ID                                string                `json:"id"`
	Object                            string                `json:"object"`
	AfterExpiration                   none                  `json:"after_expiration"`
	AllowPromotionCodes               *bool                 `json:"allow_promotion_codes"`
	AmountSubtotal                    int64                 `json:"amount_subtotal"`
	AmountTotal                       int64                 `json:"amount_total"`
	AutomaticTax                      automaticTax          `json:"automatic_tax"`
	BillingAddressCollection          optional              `json:"billing_address_collection"`
	CancelURL                         optional              `json:"cancel_url"`
	ClientReferenceID                 optional              `json:"client_reference_id"`
	ClientSecret                      none                  `json:"client_secret"`
	Consent                           none                  `json:"consent"`
	ConsentCollection                 none                  `json:"consent_collection"`
	Created                           int64                 `json:"created"`
	Currency                          string                `json:"currency"`
	CurrencyConversion                none                  `json:"currency_conversion"`
	CustomFields                      []none                `json:"custom_fields"`
	CustomText                        customText            `json:"custom_text"`
	Customer                          none                  `json:"customer"`
	CustomerCreation                  string                `json:"customer_creation"`
	CustomerDetails                   *customerDetails      `json:"customer_details"`
	CustomerEmail                     optional              `json:"customer_email"`
	ExpiresAt                         int64                 `json:"expires_at"`
	Invoice                           none                  `json:"invoice"`
	InvoiceCreation                   invoiceCreation       `json:"invoice_creation"`
	LineItems                         *list                 `json:"line_items,omitempty"` // only when expanded
	Livemode                          bool                  `json:"livemode"`
	Locale                            optional              `json:"locale"`
	Metadata                          map[string]string     `json:"metadata"`
	Mode                              string                `json:"mode"`
	PaymentIntent                     ref                   `json:"payment_intent"`
	PaymentLink                       none                  `json:"payment_link"`
	PaymentMethodCollection           string                `json:"payment_method_collection"`
	PaymentMethodConfigurationDetails none                  `json:"payment_method_configuration_details"`
	PaymentMethodOptions              sessionMethodOptions  `json:"payment_method_options"`
	PaymentMethodTypes                []string              `json:"payment_method_types"`
	PaymentStatus                     string                `json:"payment_status"`
	PhoneNumberCollection             phoneNumberCollection `json:"phone_number_collection"`
	RecoveredFrom                     none                  `json:"recovered_from"`
	SavedPaymentMethodOptions         none                  `json:"saved_payment_method_options"`
	SetupIntent                       none                  `json:"setup_intent"`
	ShippingAddressCollection         none                  `json:"shipping_address_collection"`
	ShippingCost                      none                  `json:"shipping_cost"`
	ShippingDetails                   none                  `json:"shipping_details"`
	ShippingOptions                   []none                `json:"shipping_options"`
	Status                            string                `json:"status"`
	SubmitType                        optional              `json:"submit_type"`
	Subscription                      none                  `json:"subscription"`
	SuccessURL                        string                `json:"success_url"`
	TotalDetails                      totalDetails          `json:"total_details"`
	UIMode                            string                `json:"ui_mode"`
	URL                               optional              `json:"url"` // null once no longer open

	items    []lineItem // in the order given
	intent   intentData // payment_intent_data, kept until the buyer makes the intent exist
	discount string     // id of the coupon that applies
	promo    string     // id of the promotion code it came by
}

// intentData is what payment_intent_data asked the future intent to carry.
type intentData struct {
	Metadata                  map[string]string
	Description, ReceiptEmail string
	StatementDescriptor       string
	StatementDescriptorSuffix string
	CaptureMethod             string
	SetupFutureUsage          string
	Shipping                  *shipping
}

type automaticTax struct {
	Enabled   bool       `json:"enabled"`
	Liability *liability `json:"liability"`
	Status    optional   `json:"status"`
}

// liability says who answers for the tax: the account itself, here always.
type liability struct {
	Type string `json:"type"`
}

type customText struct {
	AfterSubmit              none `json:"after_submit"`
	ShippingAddress          none `json:"shipping_address"`
	Submit                   none `json:"submit"`
	TermsOfServiceAcceptance none `json:"terms_of_service_acceptance"`
}

type customerDetails struct {
	Address   *address `json:"address"`
	Email     optional `json:"email"`
	Name      optional `json:"name"`
	Phone     optional `json:"phone"`
	TaxExempt string   `json:"tax_exempt"`
	TaxIDs    []none   `json:"tax_ids"` // null before the buyer came, [] after
}

type address struct {
	City       optional `json:"city"`
	Country    optional `json:"country"`
	Line1      optional `json:"line1"`
	Line2      optional `json:"line2"`
	PostalCode optional `json:"postal_code"`
	State      optional `json:"state"`
}

type invoiceCreation struct {
	Enabled     bool        `json:"enabled"`
	InvoiceData invoiceData `json:"invoice_data"`
}

type invoiceData struct {
	AccountTaxIDs    none              `json:"account_tax_ids"`
	CustomFields     none              `json:"custom_fields"`
	Description      none              `json:"description"`
	Footer           none              `json:"footer"`
	Issuer           none              `json:"issuer"`
	Metadata         map[string]string `json:"metadata"`
	RenderingOptions none              `json:"rendering_options"`
}

// sessionMethodOptions has a member for each of payment_method_types.
type sessionMethodOptions struct {
	Card          *sessionCard `json:"card,omitempty"`
	SepaDebit     *struct{}    `json:"sepa_debit,omitempty"`
	USBankAccount *bankOptions `json:"us_bank_account,omitempty"`
}

type sessionCard struct {
	RequestThreeDSecure string `json:"request_three_d_secure"`
}

type phoneNumberCollection struct {
	Enabled bool `json:"enabled"`
}

type totalDetails struct {
	AmountDiscount int64 `json:"amount_discount"`
	AmountShipping int64 `json:"amount_shipping"`
	AmountTax      int64 `json:"amount_tax"`
}

// lineItem is one line of a session (https://docs.stripe.com/api/checkout/sessions/line_items).
type lineItem struct {
	ID             string `json:"id"`
	Object         string `json:"object"`
	AmountDiscount int64  `json:"amount_discount"`
	AmountSubtotal int64  `json:"amount_subtotal"`
	AmountTax      int64  `json:"amount_tax"`
	AmountTotal    int64  `json:"amount_total"`
	Currency       string `json:"currency"`
	Description    string `json:"description"`
	Price          *price `json:"price"`
	Quantity       int64  `json:"quantity"`
}
