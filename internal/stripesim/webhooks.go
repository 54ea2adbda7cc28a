package stripesim

import (
	"fmt"
	"slices"
	"time"
)

// SetWebhooks replaces the endpoints of Config; those made by the API stay. A delivery belongs to a position in this list:
// one that is waiting for its next attempt goes to whatever stands there then, with its secrets, and ends if nothing does,
// as Stripe stops for a deleted endpoint. So a receiver may come back on another port, and a secret may be rolled between
// two attempts. The API shows them as we_1Configured1, we_1Configured2 and so on.
func (s *Sim) SetWebhooks(endpoints []Endpoint) {
	s.mu.Lock()
	defer s.finish()
	s.setWebhooks(endpoints)
}

func (s *Sim) setWebhooks(endpoints []Endpoint) {
	for _, h := range s.hooks.oldest() {
		if h.configured {
			s.hooks.remove(h.ID)
		}
	}
	for i, e := range endpoints {
		h := &webhookEndpoint{
			ID: fmt.Sprintf("we_1Configured%d", i+1), Object: "webhook_endpoint", APIVersion: optional(e.APIVersion),
			Created: s.now().Unix(), EnabledEvents: []string{"*"}, Livemode: s.cfg.Livemode, Metadata: map[string]string{},
			Status: "enabled", URL: e.URL, thin: e.Thin, configured: true,
		}
		if len(e.Types) > 0 {
			h.EnabledEvents = slices.Clone(e.Types)
		}
		for _, secret := range e.Secrets {
			h.secrets = append(h.secrets, rolledSecret{Value: secret})
		}
		s.hooks.add(h.ID, h)
	}
}

// RollSecret gives an endpoint a new secret. The old ones go on signing beside it for a while, which Stripe allows to be
// up to 24 hours (https://docs.stripe.com/webhooks#roll-endpoint-secrets).
func (s *Sim) RollSecret(endpointID string, keep time.Duration) (secret string, _ error) {
	s.mu.Lock()
	defer s.finish()
	h := s.hooks.get(endpointID)
	if h == nil || keep < 0 || keep > 24*time.Hour {
		return "", fmt.Errorf("roll the secret of %s, keep the old one for %s: %w", endpointID, keep, ErrNotPossible)
	}
	until := s.now().Add(keep).Unix()
	for i := range h.secrets {
		if h.secrets[i].Until == 0 || h.secrets[i].Until > until {
			h.secrets[i].Until = until
		}
	}
	secret = s.newSecret()
	h.secrets = append([]rolledSecret{{Value: secret}}, h.secrets...)
	return secret, nil
}

func (s *Sim) newSecret() string { return "whsec_" + s.cfg.NewID("") + s.cfg.NewID("") }

// reach is an endpoint as it is now, with the secrets that sign now; false if it is gone or disabled.
func (s *Sim) reach(id string) (Endpoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hooks.get(id)
	if h == nil || h.Status != "enabled" {
		return Endpoint{}, false
	}
	now := s.now().Unix()
	to := Endpoint{URL: h.URL, APIVersion: s.versionOf(h), Thin: h.thin}
	for _, secret := range h.secrets {
		if secret.Until == 0 || secret.Until > now {
			to.Secrets = append(to.Secrets, secret.Value)
		}
	}
	return to, true
}

// wants reports whether an event of this type goes there.
func (h *webhookEndpoint) wants(typ string) bool {
	return h.Status == "enabled" && (slices.Contains(h.EnabledEvents, "*") || slices.Contains(h.EnabledEvents, typ))
}

func (s *Sim) versionOf(h *webhookEndpoint) string {
	if h.APIVersion == "" {
		return s.cfg.EventAPIVersion
	}
	return string(h.APIVersion)
}
