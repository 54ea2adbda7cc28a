package stripesim

// What tests and tools ask without HTTP: each returns the object as the API would, in Stripe's JSON.

// Session returns a checkout session.
func (s *Sim) Session(id string) (json []byte, ok bool) { return look(s, &s.sessions, id) }

// PaymentIntent returns a payment intent.
func (s *Sim) PaymentIntent(id string) (json []byte, ok bool) { return look(s, &s.intents, id) }

// Charge returns a charge.
func (s *Sim) Charge(id string) (json []byte, ok bool) { return look(s, &s.charges, id) }

// RefundObject returns a refund.
func (s *Sim) RefundObject(id string) (json []byte, ok bool) { return look(s, &s.refunds, id) }

// Dispute returns a dispute.
func (s *Sim) Dispute(id string) (json []byte, ok bool) { return look(s, &s.disputes, id) }

// Sessions returns the ids of all checkout sessions, oldest first.
func (s *Sim) Sessions() []string { return idsIn(s, &s.sessions) }

// Refunds returns the ids of all refunds, oldest first.
func (s *Sim) Refunds() []string { return idsIn(s, &s.refunds) }

// Disputes returns the ids of all disputes, oldest first.
func (s *Sim) Disputes() []string { return idsIn(s, &s.disputes) }

func look[T any](s *Sim, t *table[T], id string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := t.get(id)
	if v == nil {
		return nil, false
	}
	return encode(v), true
}

func idsIn[T any](s *Sim, t *table[T]) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), t.ids...)
}
