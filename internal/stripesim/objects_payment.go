package stripesim

// paymentIntent follows https://docs.stripe.com/api/payment_intents/object, fields in the order sent.
type paymentIntent struct {
	ID                                string              `json:"id"`
	Object                            string              `json:"object"`
	Amount                            int64               `json:"amount"`
	AmountCapturable                  int64               `json:"amount_capturable"`
	AmountDetails                     amountDetails       `json:"amount_details"`
	AmountReceived                    int64               `json:"amount_received"`
	Application                       none                `json:"application"`
	ApplicationFeeAmount              none                `json:"application_fee_amount"`
	AutomaticPaymentMethods           *automaticMethods   `json:"automatic_payment_methods"`
	CanceledAt                        *int64              `json:"canceled_at"`
	CancellationReason                optional            `json:"cancellation_reason"`
	CaptureMethod                     string              `json:"capture_method"`
	ClientSecret                      string              `json:"client_secret"`
	ConfirmationMethod                string              `json:"confirmation_method"`
	Created                           int64               `json:"created"`
	Currency                          string              `json:"currency"`
	Customer                          none                `json:"customer"`
	Description                       optional            `json:"description"`
	Invoice                           none                `json:"invoice"`
	LastPaymentError                  *paymentError       `json:"last_payment_error"`
	LatestCharge                      ref                 `json:"latest_charge"`
	Livemode                          bool                `json:"livemode"`
	Metadata                          map[string]string   `json:"metadata"`
	NextAction                        *nextAction         `json:"next_action"`
	OnBehalfOf                        none                `json:"on_behalf_of"`
	PaymentMethod                     ref                 `json:"payment_method"`
	PaymentMethodConfigurationDetails none                `json:"payment_method_configuration_details"`
	PaymentMethodOptions              intentMethodOptions `json:"payment_method_options"`
	PaymentMethodTypes                []string            `json:"payment_method_types"`
	Processing                        none                `json:"processing"`
	ReceiptEmail                      optional            `json:"receipt_email"`
	Review                            none                `json:"review"`
	SetupFutureUsage                  optional            `json:"setup_future_usage"`
	Shipping                          *shipping           `json:"shipping"`
	Source                            none                `json:"source"`
	StatementDescriptor               optional            `json:"statement_descriptor"`
	StatementDescriptorSuffix         optional            `json:"statement_descriptor_suffix"`
	Status                            string              `json:"status"`
	TransferData                      none                `json:"transfer_data"`
	TransferGroup                     none                `json:"transfer_group"`
}

type amountDetails struct {
	Tip struct{} `json:"tip"`
}

// automaticMethods is there when the intent was created without payment_method_types.
type automaticMethods struct {
	AllowRedirects string `json:"allow_redirects"`
	Enabled        bool   `json:"enabled"`
}

// nextAction sends the buyer to an authentication.
type nextAction struct {
	RedirectToURL struct {
		ReturnURL optional `json:"return_url"`
		URL       string   `json:"url"`
	} `json:"redirect_to_url"`
	Type string `json:"type"`
}

type shipping struct {
	Address        address  `json:"address"`
	Carrier        optional `json:"carrier"`
	Name           optional `json:"name"`
	Phone          optional `json:"phone"`
	TrackingNumber optional `json:"tracking_number"`
}

// intentMethodOptions has a member for each of payment_method_types.
type intentMethodOptions struct {
	Card          *cardOptions `json:"card,omitempty"`
	SepaDebit     *struct{}    `json:"sepa_debit,omitempty"`
	USBankAccount *bankOptions `json:"us_bank_account,omitempty"`
}

type cardOptions struct {
	Installments        none   `json:"installments"`
	MandateOptions      none   `json:"mandate_options"`
	Network             none   `json:"network"`
	RequestThreeDSecure string `json:"request_three_d_secure"`
}

type bankOptions struct {
	VerificationMethod string `json:"verification_method"`
}

// paymentError is last_payment_error: an error object that also names the charge that failed.
type paymentError struct {
	Charge      string `json:"charge"`
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code,omitempty"`
	DocURL      string `json:"doc_url"`
	Message     string `json:"message"`
	Type        string `json:"type"`
}

// charge follows https://docs.stripe.com/api/charges/object, fields in the order sent, with the three old ones
// (destination, dispute, order) that the reference no longer lists and Stripe still sends.
type charge struct {
	ID                            string            `json:"id"`
	Object                        string            `json:"object"`
	Amount                        int64             `json:"amount"`
	AmountCaptured                int64             `json:"amount_captured"`
	AmountRefunded                int64             `json:"amount_refunded"`
	Application                   none              `json:"application"`
	ApplicationFee                none              `json:"application_fee"`
	ApplicationFeeAmount          none              `json:"application_fee_amount"`
	BalanceTransaction            ref               `json:"balance_transaction"`
	BillingDetails                billingDetails    `json:"billing_details"`
	CalculatedStatementDescriptor optional          `json:"calculated_statement_descriptor"`
	Captured                      bool              `json:"captured"`
	Created                       int64             `json:"created"`
	Currency                      string            `json:"currency"`
	Customer                      none              `json:"customer"`
	Description                   optional          `json:"description"`
	Destination                   none              `json:"destination"`
	Dispute                       ref               `json:"dispute"`
	Disputed                      bool              `json:"disputed"`
	FailureBalanceTransaction     ref               `json:"failure_balance_transaction"`
	FailureCode                   optional          `json:"failure_code"`
	FailureMessage                optional          `json:"failure_message"`
	FraudDetails                  struct{}          `json:"fraud_details"`
	Invoice                       none              `json:"invoice"`
	Livemode                      bool              `json:"livemode"`
	Metadata                      map[string]string `json:"metadata"`
	OnBehalfOf                    none              `json:"on_behalf_of"`
	Order                         none              `json:"order"`
	Outcome                       *outcome          `json:"outcome"`
	Paid                          bool              `json:"paid"`
	PaymentIntent                 ref               `json:"payment_intent"`
	PaymentMethod                 string            `json:"payment_method"`
	PaymentMethodDetails          methodDetails     `json:"payment_method_details"`
	RadarOptions                  struct{}          `json:"radar_options"`
	ReceiptEmail                  optional          `json:"receipt_email"`
	ReceiptNumber                 none              `json:"receipt_number"`
	ReceiptURL                    optional          `json:"receipt_url"`
	Refunded                      bool              `json:"refunded"`
	Review                        none              `json:"review"`
	Shipping                      *shipping         `json:"shipping"`
	Source                        none              `json:"source"`
	SourceTransfer                none              `json:"source_transfer"`
	StatementDescriptor           optional          `json:"statement_descriptor"`
	StatementDescriptorSuffix     optional          `json:"statement_descriptor_suffix"`
	Status                        string            `json:"status"`
	TransferData                  none              `json:"transfer_data"`
	TransferGroup                 none              `json:"transfer_group"`
}

type billingDetails struct {
	Address address  `json:"address"`
	Email   optional `json:"email"`
	Name    optional `json:"name"`
	Phone   optional `json:"phone"`
}

type outcome struct {
	NetworkStatus string   `json:"network_status"`
	Reason        optional `json:"reason"`
	RiskLevel     string   `json:"risk_level"`
	RiskScore     int64    `json:"risk_score"`
	SellerMessage string   `json:"seller_message"`
	Type          string   `json:"type"`
}

// methodDetails has one member named after its type.
type methodDetails struct {
	Card          *cardDetails `json:"card,omitempty"`
	SepaDebit     *sepaDetails `json:"sepa_debit,omitempty"`
	Type          string       `json:"type"`
	USBankAccount *bankDetails `json:"us_bank_account,omitempty"`
}

type cardDetails struct {
	AmountAuthorized         int64       `json:"amount_authorized"`
	Brand                    string      `json:"brand"`
	Checks                   cardChecks  `json:"checks"`
	Country                  string      `json:"country"`
	ExpMonth                 int64       `json:"exp_month"`
	ExpYear                  int64       `json:"exp_year"`
	ExtendedAuthorization    cardStatus  `json:"extended_authorization"`
	Fingerprint              string      `json:"fingerprint"`
	Funding                  string      `json:"funding"`
	IncrementalAuthorization cardStatus  `json:"incremental_authorization"`
	Installments             none        `json:"installments"`
	Last4                    string      `json:"last4"`
	Mandate                  none        `json:"mandate"`
	Multicapture             cardStatus  `json:"multicapture"`
	Network                  string      `json:"network"`
	NetworkToken             cardToken   `json:"network_token"`
	Overcapture              overcapture `json:"overcapture"`
	ThreeDSecure             none        `json:"three_d_secure"`
	Wallet                   none        `json:"wallet"`
}

type cardChecks struct {
	AddressLine1Check      none   `json:"address_line1_check"`
	AddressPostalCodeCheck none   `json:"address_postal_code_check"`
	CVCCheck               string `json:"cvc_check"`
}

type cardStatus struct {
	Status string `json:"status"`
}

type cardToken struct {
	Used bool `json:"used"`
}

type overcapture struct {
	MaximumAmountCapturable int64  `json:"maximum_amount_capturable"`
	Status                  string `json:"status"`
}

type bankDetails struct {
	AccountHolderType string   `json:"account_holder_type"`
	AccountType       string   `json:"account_type"`
	BankName          string   `json:"bank_name"`
	Fingerprint       string   `json:"fingerprint"`
	Last4             string   `json:"last4"`
	Mandate           none     `json:"mandate"`
	PaymentReference  optional `json:"payment_reference"`
	RoutingNumber     string   `json:"routing_number"`
}

type sepaDetails struct {
	BankCode    string `json:"bank_code"`
	BranchCode  string `json:"branch_code"`
	Country     string `json:"country"`
	Fingerprint string `json:"fingerprint"`
	Last4       string `json:"last4"`
	Mandate     string `json:"mandate"`
}
