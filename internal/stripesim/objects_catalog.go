package stripesim

// product follows https://docs.stripe.com/api/products/object, with the two old fields (attributes, type) that the
// reference no longer lists and Stripe still sends at this version.
type product struct {
	ID                  string            `json:"id"`
	Object              string            `json:"object"`
	Active              bool              `json:"active"`
	Attributes          []none            `json:"attributes"`
	Created             int64             `json:"created"`
	DefaultPrice        ref               `json:"default_price"`
	Description         optional          `json:"description"`
	Images              []string          `json:"images"`
	Livemode            bool              `json:"livemode"`
	MarketingFeatures   []none            `json:"marketing_features"`
	Metadata            map[string]string `json:"metadata"`
	Name                string            `json:"name"`
	PackageDimensions   none              `json:"package_dimensions"`
	Shippable           none              `json:"shippable"`
	StatementDescriptor optional          `json:"statement_descriptor"`
	TaxCode             optional          `json:"tax_code"`
	Type                string            `json:"type"`
	UnitLabel           optional          `json:"unit_label"`
	Updated             int64             `json:"updated"`
	URL                 optional          `json:"url"`
}

// price follows https://docs.stripe.com/api/prices/object. One that Stripe makes of inline price_data is born archived,
// hence active false.
type price struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	Active            bool              `json:"active"`
	BillingScheme     string            `json:"billing_scheme"`
	Created           int64             `json:"created"`
	Currency          string            `json:"currency"`
	CustomUnitAmount  none              `json:"custom_unit_amount"`
	Livemode          bool              `json:"livemode"`
	LookupKey         optional          `json:"lookup_key"`
	Metadata          map[string]string `json:"metadata"`
	Nickname          optional          `json:"nickname"`
	Product           ref               `json:"product"`
	Recurring         none              `json:"recurring"`
	TaxBehavior       string            `json:"tax_behavior"`
	TiersMode         none              `json:"tiers_mode"`
	TransformQuantity none              `json:"transform_quantity"`
	Type              string            `json:"type"`
	UnitAmount        int64             `json:"unit_amount"`
	UnitAmountDecimal string            `json:"unit_amount_decimal"`
}

// coupon follows https://docs.stripe.com/api/coupons/object.
type coupon struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	AmountOff        *int64            `json:"amount_off"`
	Created          int64             `json:"created"`
	Currency         optional          `json:"currency"`
	Duration         string            `json:"duration"`
	DurationInMonths none              `json:"duration_in_months"`
	Livemode         bool              `json:"livemode"`
	MaxRedemptions   *int64            `json:"max_redemptions"`
	Metadata         map[string]string `json:"metadata"`
	Name             optional          `json:"name"`
	PercentOff       percent           `json:"percent_off"`
	RedeemBy         *int64            `json:"redeem_by"`
	TimesRedeemed    int64             `json:"times_redeemed"`
	Valid            bool              `json:"valid"`
}

// promotionCode follows https://docs.stripe.com/api/promotion_codes/object.
type promotionCode struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	Active         bool              `json:"active"`
	Code           string            `json:"code"`
	Coupon         *coupon           `json:"coupon"`
	Created        int64             `json:"created"`
	Customer       none              `json:"customer"`
	ExpiresAt      *int64            `json:"expires_at"`
	Livemode       bool              `json:"livemode"`
	MaxRedemptions *int64            `json:"max_redemptions"`
	Metadata       map[string]string `json:"metadata"`
	Restrictions   restrictions      `json:"restrictions"`
	TimesRedeemed  int64             `json:"times_redeemed"`
}

type restrictions struct {
	FirstTimeTransaction  bool `json:"first_time_transaction"`
	MinimumAmount         none `json:"minimum_amount"`
	MinimumAmountCurrency none `json:"minimum_amount_currency"`
}

// deleted is what a DELETE answers.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}
