package stripesim

// webhookEndpoint follows https://docs.stripe.com/api/webhook_endpoints/object. The secret is shown at creation only.
type webhookEndpoint struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	APIVersion    optional          `json:"api_version"`
	Application   none              `json:"application"`
	Created       int64             `json:"created"`
	Description   optional          `json:"description"`
	EnabledEvents []string          `json:"enabled_events"`
	Livemode      bool              `json:"livemode"`
	Metadata      map[string]string `json:"metadata"`
	Secret        string            `json:"secret,omitempty"`
	Status        string            `json:"status"`
	URL           string            `json:"url"`

	secrets    []rolledSecret
	thin       bool
	configured bool // it came with Config or SetWebhooks, not by the API
}

// rolledSecret signs until a time by the clock, or for good if that is zero.
type rolledSecret struct {
	Value string
	Until int64
}
