package stripesim

// account follows https://docs.stripe.com/api/accounts/object, as far as a merchant's own program looks at it.
type account struct {
	ID               string `json:"id"`
	Object           string `json:"object"`
	ChargesEnabled   bool   `json:"charges_enabled"`
	DetailsSubmitted bool   `json:"details_submitted"`
	PayoutsEnabled   bool   `json:"payouts_enabled"`
	Type             string `json:"type"`
}

func (s *Sim) getAccount(*request) (any, *apiError) {
	return &account{
		ID: s.cfg.Account, Object: "account", ChargesEnabled: true, DetailsSubmitted: true, PayoutsEnabled: true, Type: "standard",
	}, nil
}
