package stripesim

// refund follows https://docs.stripe.com/api/refunds/object at this version. The two failure fields are there only once it
// failed.
type refund struct {
	ID                        string             `json:"id"`
	Object                    string             `json:"object"`
	Amount                    int64              `json:"amount"`
	BalanceTransaction        ref                `json:"balance_transaction"`
	Charge                    ref                `json:"charge"`
	Created                   int64              `json:"created"`
	Currency                  string             `json:"currency"`
	DestinationDetails        destinationDetails `json:"destination_details"`
	FailureBalanceTransaction *ref               `json:"failure_balance_transaction,omitempty"`
	FailureReason             string             `json:"failure_reason,omitempty"`
	Metadata                  map[string]string  `json:"metadata"`
	PaymentIntent             ref                `json:"payment_intent"`
	Reason                    optional           `json:"reason"`
	ReceiptNumber             none               `json:"receipt_number"`
	SourceTransferReversal    none               `json:"source_transfer_reversal"`
	Status                    string             `json:"status"`
	TransferReversal          none               `json:"transfer_reversal"`
}

// destinationDetails has one member named after its type.
type destinationDetails struct {
	Card          *cardDestination `json:"card,omitempty"`
	SepaDebit     *struct{}        `json:"sepa_bank_transfer,omitempty"`
	Type          string           `json:"type"`
	USBankAccount *struct{}        `json:"us_bank_transfer,omitempty"`
}

type cardDestination struct {
	Reference       optional `json:"reference,omitempty"`
	ReferenceStatus string   `json:"reference_status"`
	ReferenceType   string   `json:"reference_type"`
	Type            string   `json:"type"`
}

// dispute follows https://docs.stripe.com/api/disputes/object, with the old balance_transaction that the reference no
// longer lists and Stripe still sends.
type dispute struct {
	ID                   string               `json:"id"`
	Object               string               `json:"object"`
	Amount               int64                `json:"amount"`
	BalanceTransaction   ref                  `json:"balance_transaction"`
	BalanceTransactions  []balanceTransaction `json:"balance_transactions"`
	Charge               ref                  `json:"charge"`
	Created              int64                `json:"created"`
	Currency             string               `json:"currency"`
	Evidence             map[string]optional  `json:"evidence"`
	EvidenceDetails      evidenceDetails      `json:"evidence_details"`
	IsChargeRefundable   bool                 `json:"is_charge_refundable"`
	Livemode             bool                 `json:"livemode"`
	Metadata             map[string]string    `json:"metadata"`
	PaymentIntent        ref                  `json:"payment_intent"`
	PaymentMethodDetails disputeMethod        `json:"payment_method_details"`
	Reason               string               `json:"reason"`
	Status               string               `json:"status"`
}

type evidenceDetails struct {
	DueBy           *int64 `json:"due_by"`
	HasEvidence     bool   `json:"has_evidence"`
	PastDue         bool   `json:"past_due"`
	SubmissionCount int64  `json:"submission_count"`
}

type disputeMethod struct {
	Card *disputeCard `json:"card,omitempty"`
	Type string       `json:"type"`
}

type disputeCard struct {
	Brand             string `json:"brand"`
	CaseType          string `json:"case_type"`
	NetworkReasonCode string `json:"network_reason_code"`
}

// balanceTransaction follows https://docs.stripe.com/api/balance_transactions/object; here it shows what a dispute took
// from the account and gave back.
type balanceTransaction struct {
	ID                string      `json:"id"`
	Object            string      `json:"object"`
	Amount            int64       `json:"amount"`
	AvailableOn       int64       `json:"available_on"`
	Created           int64       `json:"created"`
	Currency          string      `json:"currency"`
	Description       string      `json:"description"`
	ExchangeRate      none        `json:"exchange_rate"`
	Fee               int64       `json:"fee"`
	FeeDetails        []feeDetail `json:"fee_details"`
	Net               int64       `json:"net"`
	ReportingCategory string      `json:"reporting_category"`
	Source            string      `json:"source"`
	Status            string      `json:"status"`
	Type              string      `json:"type"`
}

type feeDetail struct {
	Amount      int64  `json:"amount"`
	Application none   `json:"application"`
	Currency    string `json:"currency"`
	Description string `json:"description"`
	Type        string `json:"type"`
}
