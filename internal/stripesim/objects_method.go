package stripesim

// paymentMethod follows https://docs.stripe.com/api/payment_methods/object. It has one member named after its type.
type paymentMethod struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	AllowRedisplay string            `json:"allow_redisplay"`
	BillingDetails billingDetails    `json:"billing_details"`
	Card           *methodCard       `json:"card,omitempty"`
	Created        int64             `json:"created"`
	Customer       none              `json:"customer"`
	Livemode       bool              `json:"livemode"`
	Metadata       map[string]string `json:"metadata"`
	SepaDebit      *methodSepa       `json:"sepa_debit,omitempty"`
	Type           string            `json:"type"`
	USBankAccount  *methodBank       `json:"us_bank_account,omitempty"`

	test string // name of the testMethod it behaves as
}

type methodCard struct {
	Brand             string       `json:"brand"`
	Checks            cardChecks   `json:"checks"`
	Country           string       `json:"country"`
	DisplayBrand      string       `json:"display_brand"`
	ExpMonth          int64        `json:"exp_month"`
	ExpYear           int64        `json:"exp_year"`
	Fingerprint       string       `json:"fingerprint"`
	Funding           string       `json:"funding"`
	GeneratedFrom     none         `json:"generated_from"`
	Last4             string       `json:"last4"`
	Networks          cardNetworks `json:"networks"`
	ThreeDSecureUsage cardSecure   `json:"three_d_secure_usage"`
	Wallet            none         `json:"wallet"`
}

type cardNetworks struct {
	Available []string `json:"available"`
	Preferred none     `json:"preferred"`
}

type cardSecure struct {
	Supported bool `json:"supported"`
}

type methodSepa struct {
	BankCode      string     `json:"bank_code"`
	BranchCode    string     `json:"branch_code"`
	Country       string     `json:"country"`
	Fingerprint   string     `json:"fingerprint"`
	GeneratedFrom sepaOrigin `json:"generated_from"`
	Last4         string     `json:"last4"`
}

type sepaOrigin struct {
	Charge       none `json:"charge"`
	SetupAttempt none `json:"setup_attempt"`
}

type methodBank struct {
	AccountHolderType string       `json:"account_holder_type"`
	AccountType       string       `json:"account_type"`
	BankName          string       `json:"bank_name"`
	FinancialAccount  none         `json:"financial_connections_account"`
	Fingerprint       string       `json:"fingerprint"`
	Last4             string       `json:"last4"`
	Networks          bankNetworks `json:"networks"`
	RoutingNumber     string       `json:"routing_number"`
	StatusDetails     struct{}     `json:"status_details"`
}

type bankNetworks struct {
	Preferred string   `json:"preferred"`
	Supported []string `json:"supported"`
}
