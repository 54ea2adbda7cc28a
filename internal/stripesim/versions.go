package stripesim

import (
	"bytes"
	"encoding/json"
	"slices"
)

// EventAPIVersions are the API versions in which events can be rendered, oldest first. They differ where receivers have
// stumbled: before 2022-11-15 a charge carries its refunds and an intent its charges; since 2024-10-28 refunds have events
// of their own. An event is rendered by its endpoint's version, else by the account's, and never again
// (https://docs.stripe.com/webhooks/versioning).
//
// Simplified: everything else has the shape of APIVersion in all of them.
func EventAPIVersions() []string { return []string{"2022-08-01", APIVersion, refundsSince} }

// refundsExpandedUntil is the version that took refunds out of charges, and charges out of intents
// (https://docs.stripe.com/upgrades#2022-11-15).
const refundsExpandedUntil = "2022-11-15"

// olderMembers are what older versions have beside the present ones, as it is at this moment; nothing where nobody has such
// a version.
func (s *Sim) olderMembers(object any) map[string]json.RawMessage {
	asked := s.cfg.EventAPIVersion < refundsExpandedUntil
	for _, h := range s.hooks.oldest() {
		asked = asked || s.versionOf(h) < refundsExpandedUntil
	}
	if !asked { // to look costs a walk through all charges or refunds
		return nil
	}
	collect := func(url string, data []any) json.RawMessage {
		return encode(struct {
			Object     string `json:"object"`
			Data       []any  `json:"data"`
			HasMore    bool   `json:"has_more"`
			TotalCount int    `json:"total_count"`
			URL        string `json:"url"`
		}{"list", data, false, len(data), url})
	}
	data := []any{}
	switch v := object.(type) {
	case *charge:
		for _, r := range s.refunds.newest(func(r *refund) bool { return r.Charge.id == v.ID }) {
			data = append(data, r)
		}
		return map[string]json.RawMessage{"refunds": collect("/v1/charges/"+v.ID+"/refunds", data)}
	case *paymentIntent:
		for _, ch := range s.charges.newest(func(ch *charge) bool { return ch.PaymentIntent.id == v.ID }) {
			data = append(data, ch)
		}
		return map[string]json.RawMessage{"charges": collect("/v1/charges?payment_intent="+v.ID, data)}
	}
	return nil
}

// render is the event's object in a version.
func (e *event) render(version string) json.RawMessage {
	if version >= refundsExpandedUntil || len(e.older) == 0 {
		return e.snapshot
	}
	return withMembers(e.snapshot, e.older)
}

// withMembers puts members into a JSON object at their place in the alphabet, after id and object.
func withMembers(doc json.RawMessage, members map[string]json.RawMessage) json.RawMessage {
	type pair struct {
		name  string
		value json.RawMessage
	}
	var all []pair
	d := json.NewDecoder(bytes.NewReader(doc))
	if _, err := d.Token(); err != nil {
		return doc
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return doc
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return doc
		}
		text, _ := name.(string)
		all = append(all, pair{text, v})
	}
	for name, v := range members {
		i := 2
		for i < len(all) && all[i].name < name {
			i++
		}
		all = slices.Insert(all, i, pair{name, v})
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, p := range all {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(encode(p.name))
		out.WriteByte(':')
		out.Write(p.value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// bodyFor is what an endpoint is sent: always the same bytes for the same version.
func (e *event) bodyFor(to Endpoint) []byte {
	switch {
	case to.Thin:
		return encode(e.thin())
	case to.APIVersion == e.object.APIVersion:
		return e.body
	}
	o := e.object
	o.APIVersion, o.Data.Object = to.APIVersion, e.render(to.APIVersion)
	return encode(o)
}

// thinEvent tells that something happened and to what, and leaves the looking to the receiver
// (https://docs.stripe.com/api/v2/core/events/object).
//
// Simplified: Stripe offers thin events for types of v1 only by invitation; they are named here as there, with v1. before
// the type.
type thinEvent struct {
	ID            string        `json:"id"`
	Object        string        `json:"object"`
	Type          string        `json:"type"`
	Livemode      bool          `json:"livemode"`
	Created       string        `json:"created"`
	RelatedObject relatedObject `json:"related_object"`
	Reason        *thinReason   `json:"reason,omitempty"`
}

type relatedObject struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	URL  string `json:"url"`
}

type thinReason struct {
	Type    string       `json:"type"`
	Request eventRequest `json:"request"`
}

func (e *event) thin() thinEvent {
	var about struct{ ID, Object string }
	_ = json.Unmarshal(e.snapshot, &about) // our own encoding of an object that has both
	paths := map[string]string{
		"checkout.session": "/v1/checkout/sessions/", "payment_intent": "/v1/payment_intents/", "charge": "/v1/charges/",
		"refund": "/v1/refunds/", "dispute": "/v1/disputes/", "product": "/v1/products/", "price": "/v1/prices/",
	}
	t := thinEvent{
		ID: e.object.ID, Object: "v2.core.event", Type: "v1." + e.object.Type, Livemode: e.object.Livemode,
		Created:       e.created.Format("2006-01-02T15:04:05.000Z"),
		RelatedObject: relatedObject{ID: about.ID, Type: about.Object, URL: paths[about.Object] + about.ID},
	}
	if e.object.Request.ID != "" {
		t.Reason = &thinReason{Type: "request", Request: e.object.Request}
	}
	return t
}
