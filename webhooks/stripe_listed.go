package webhooks

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"paidonce/internal/provider"
)

// Listed reads the envelope of an event that was fetched from the provider's API instead of
// being posted here: nothing is signed, and the account is the one whose events were asked for.
func (s *Stripe) Listed(body []byte, account string) (Envelope, error) {
	e, err := stripeEnvelope(body)
	if err != nil {
		return Envelope{}, err
	}
	e.Account = account
	return e, nil
}

// SessionRead makes a delivery of a checkout session that was read from the provider: its
// envelope, and a body in the shape of an event, so that it is read back like one. It is
// Recorded and drained like any delivery, so that an object which was read and an event
// about it are two deliveries of one fact. The object stays as it came, byte for byte.
func (s *Stripe) SessionRead(source Source, account string, session []byte, now time.Time) (Envelope, []byte) {
	id := gjson.GetBytes(session, "id").Str
	e := Envelope{
		Provider: s.Name(), EventID: fmt.Sprintf("%s:%s:%s", source, id, uuid.NewString()), EventType: sessionRead,
		ResourceID: id, Livemode: gjson.GetBytes(session, "livemode").Bool(), Account: account,
		APIVersion: provider.APIVersion, OccurredAt: now,
	}
	return e, eventAbout(e, session)
}

func eventAbout(e Envelope, object []byte) []byte {
	head, err := json.Marshal(struct {
		ID         string `json:"id"`
		Object     string `json:"object"`
		Type       string `json:"type"`
		Created    int64  `json:"created"`
		Livemode   bool   `json:"livemode"`
		APIVersion string `json:"api_version"`
	}{e.EventID, "event", e.EventType, e.OccurredAt.Unix(), e.Livemode, e.APIVersion})
	if err != nil {
		panic("bug: a struct of plain values always encodes: " + err.Error())
	}
	body := append(head[:len(head)-1], `,"data":{"object":`...)
	body = append(body, object...)
	return append(body, `}}`...)
}
