package stripesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// handleControl is the Go API for other processes. It asks for no key: who reaches the Sim's address may drive it.
//
//	GET  /_sim/clock                          {"now": "2026-01-02T03:04:05Z"}
//	POST /_sim/clock                          {"advance": "25h"} or {"set": "2026-01-02T03:04:05Z"}
//	POST /_sim/faults                         a Fault, as {"method": "POST", "path": "/v1/refunds", "status": 500}
//	POST /_sim/webhook_endpoints/{id}/roll    {"keep": "24h"}, answers {"secret": "whsec_…"}
//	POST /_sim/events/{id}/deliver            delivers the event again
func (s *Sim) handleControl(mux *http.ServeMux) {
	mux.HandleFunc("GET /_sim/clock", func(w http.ResponseWriter, _ *http.Request) { s.tellClock(w) })
	mux.HandleFunc("POST /_sim/clock", s.setClock)
	mux.HandleFunc("POST /_sim/faults", s.addFault)
	mux.HandleFunc("POST /_sim/webhook_endpoints/{id}/roll", s.roll)
	mux.HandleFunc("POST /_sim/events/{id}/deliver", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Deliver(r.PathValue("id")); err != nil { //nolint:contextcheck // deliveries outlive the request
			tell(w, http.StatusNotFound, map[string]string{"error": err.Error()})
			return
		}
		tell(w, http.StatusOK, map[string]string{"delivering": r.PathValue("id")})
	})
}

func (s *Sim) tellClock(w http.ResponseWriter) {
	tell(w, http.StatusOK, map[string]string{"now": s.now().UTC().Format(time.RFC3339)})
}

func (s *Sim) setClock(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Advance period    `json:"advance"`
		Set     time.Time `json:"set"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	by := time.Duration(in.Advance)
	if !in.Set.IsZero() {
		by = in.Set.Sub(s.now())
	}
	s.Advance(by) //nolint:contextcheck // deliveries outlive the request that caused them
	s.say("clock    " + s.now().UTC().Format(time.RFC3339))
	s.tellClock(w)
}

func (s *Sim) addFault(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Method     string    `json:"method"`
		Path       string    `json:"path"`
		Times      int       `json:"times"`
		Kind       FaultKind `json:"kind"`
		Status     int       `json:"status"`
		AfterWork  bool      `json:"after_work"`
		Code       string    `json:"code"`
		RetryAfter string    `json:"retry_after"`
		Delay      period    `json:"delay"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	if in.Status != 0 && (in.Status < 400 || in.Status > 599) {
		tell(w, http.StatusBadRequest, map[string]string{"error": "status is an HTTP error, 400 to 599"})
		return
	}
	s.Inject(Fault{
		Method: in.Method, Path: in.Path, Times: in.Times, Kind: in.Kind, Status: in.Status, AfterWork: in.AfterWork,
		Code: in.Code, RetryAfter: in.RetryAfter, Delay: time.Duration(in.Delay),
	})
	s.say(fmt.Sprintf("fault    %s %s", in.Method, in.Path))
	tell(w, http.StatusCreated, in)
}

func (s *Sim) roll(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Keep period `json:"keep"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	secret, err := s.RollSecret(r.PathValue("id"), time.Duration(in.Keep))
	if err != nil {
		tell(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	tell(w, http.StatusOK, map[string]string{"secret": secret})
}

// readJSON reads one JSON object with known names only; false if it has answered that it could not.
func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		tell(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return false
	}
	return true
}

func tell(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v))
}

// period is a duration written as Go writes it, "1h30m".
type period time.Duration

// MarshalJSON writes it as text.
func (d period) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads text alone: a bare number would leave its unit open.
func (d *period) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New(`a duration is a text like "25h"`)
	}
	v, err := time.ParseDuration(text)
	*d = period(v)
	return err
}

// MarshalJSON writes the kind's name.
func (k FaultKind) MarshalJSON() ([]byte, error) { return json.Marshal(faultNames()[k]) }

// UnmarshalJSON reads the kind's name.
func (k *FaultKind) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	for kind, name := range faultNames() {
		if name == text {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("kind is answered, lose_answer or lose_request, not %q", text)
}

func faultNames() map[FaultKind]string {
	return map[FaultKind]string{Answered: "answered", LoseAnswer: "lose_answer", LoseRequest: "lose_request"}
}
