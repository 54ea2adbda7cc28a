package stripesim

import (
	"net/http"
	"strings"
)

// authorize takes a secret or restricted key of the Sim's mode by Bearer, or as the user name of Basic
// (https://docs.stripe.com/api/authentication).
func (s *Sim) authorize(r *http.Request) *apiError {
	key, _, basic := r.BasicAuth()
	if !basic {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if strings.EqualFold(scheme, "Bearer") {
			key = strings.TrimSpace(token)
		}
	}
	mode, other := "test", "live"
	if s.cfg.Livemode {
		mode, other = other, mode
	}
	switch {
	case key == "":
		return unauthorized("You did not provide an API key. Send it as 'Authorization: Bearer sk_" + mode + "_…'.")
	case hasKind(key, mode):
		return nil
	case hasKind(key, other):
		return unauthorized("The simulated Stripe is in " + mode + " mode and does not take a " + other + " mode key.")
	default:
		return unauthorized("Invalid API Key provided.")
	}
}

func hasKind(key, mode string) bool {
	for _, prefix := range []string{"sk_", "rk_"} {
		if rest, ok := strings.CutPrefix(key, prefix+mode+"_"); ok && rest != "" {
			return true
		}
	}
	return false
}
