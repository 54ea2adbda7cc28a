package stripesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// stateVersion is the form of the file below. A file of another form is refused rather than guessed at.
const stateVersion = 1

// state is everything that outlives the process: objects, events and where they still have to arrive, keys, what is due,
// and how far the clock has been moved. Calls, attempts and faults are of one run; the endpoints of Config come with it.
type state struct {
	Version  int
	Offset   time.Duration
	Hooks    []storedHook
	Products []*product
	Prices   []*price
	Coupons  []*coupon
	Promos   []*promotionCode
	Methods  []storedMethod
	Sessions []storedSession
	Intents  []*paymentIntent
	Charges  []*charge
	Refunds  []*refund
	Disputes []*dispute
	Events   []storedEvent
	Keys     map[string]storedKey
	Due      []due
}

// The objects that know more than they show.
type (
	storedHook struct {
		Object  *webhookEndpoint
		Secrets []rolledSecret
	}
	storedMethod struct {
		Object *paymentMethod
		Test   string
	}
	storedSession struct {
		Object          *session
		Lines           []lineItem
		Intent          intentData
		Discount, Promo string
	}
	storedEvent struct {
		Object   eventObject
		Snapshot json.RawMessage
		Older    map[string]json.RawMessage
		Since    string
		Created  time.Time
		Pending  []string
		Running  map[string]int
	}
	storedKey struct {
		RequestID, Endpoint, Params string
		At                          time.Time
		Status                      int
		Body                        []byte
		RetryAfter                  string
	}
)

// Open is New with the state of c.State, which need not exist yet. From then on the file follows every change, before the
// change is answered. Deliveries that had not ended are begun again.
func Open(c Config) (*Sim, error) {
	s := New(c)
	if c.State == "" {
		return s, nil
	}
	s.persistent = true // before restore: the deliveries it begins again save at once
	b, err := os.ReadFile(c.State)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	default:
		var st state
		if err := json.Unmarshal(b, &st); err != nil {
			return nil, fmt.Errorf("%w %s: %w", ErrState, c.State, err)
		}
		if st.Version != stateVersion {
			return nil, fmt.Errorf("%w %s: its form is %d, not %d", ErrState, c.State, st.Version, stateVersion)
		}
		s.restore(st)
	}
	s.saving.Lock()
	err = s.write() // now, so that a path that cannot be written is found at the start
	s.saving.Unlock()
	if err != nil {
		s.Close() // waits for deliveries, which may wait to save
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return s, nil
}

// save writes the file if anything has changed since it was last written. Several changes at once cost one writing.
func (s *Sim) save() {
	if !s.persistent {
		return
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if err := s.write(); err != nil {
		s.cfg.Log.Error("state not written", "file", s.cfg.State, "error", err)
		s.say("state    not written: " + err.Error())
	}
}

// write replaces the file in one step: a crash leaves the old one or the new one. s.saving is held.
func (s *Sim) write() error {
	s.mu.Lock()
	version := s.version
	if version == s.saved && s.saved != 0 {
		s.mu.Unlock()
		return nil
	}
	b := encode(s.snapshot())
	s.mu.Unlock()

	f, err := os.CreateTemp(filepath.Dir(s.cfg.State), filepath.Base(s.cfg.State)+".*") // mode 0600: it holds secrets
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.cfg.State) //nolint:gosec // the operator's own path
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name())) //nolint:gosec // likewise
	}
	s.saved = version
	return nil
}

// snapshot is called with s.mu held, and what it returns is encoded before that is given back.
func (s *Sim) snapshot() state {
	st := state{
		Version: stateVersion, Offset: time.Duration(s.offset.Load()), Products: s.products.oldest(), Prices: s.prices.oldest(),
		Coupons: s.coupons.oldest(), Promos: s.promos.oldest(), Intents: s.intents.oldest(), Charges: s.charges.oldest(),
		Refunds: s.refunds.oldest(), Disputes: s.disputes.oldest(), Keys: map[string]storedKey{}, Due: s.due,
	}
	for _, h := range s.hooks.oldest() {
		if !h.configured {
			st.Hooks = append(st.Hooks, storedHook{h, h.secrets})
		}
	}
	for _, m := range s.methods.oldest() {
		st.Methods = append(st.Methods, storedMethod{m, m.test})
	}
	for _, v := range s.sessions.oldest() {
		st.Sessions = append(st.Sessions, storedSession{v, v.items, v.intent, v.discount, v.promo})
	}
	for _, e := range s.events.oldest() {
		running := maps.Clone(e.running)
		maps.DeleteFunc(running, func(_ string, n int) bool { return n == 0 })
		st.Events = append(st.Events, storedEvent{
			e.object, e.snapshot, e.older, e.since, e.created, slices.Sorted(maps.Keys(e.pending)), running,
		})
	}
	for name, k := range s.keys {
		if k.done { // one in flight is of a request that will never be answered
			st.Keys[name] = storedKey{k.requestID, k.endpoint, k.params, k.at, k.answer.status, k.answer.body, k.answer.retryAfter}
		}
	}
	return st
}

// restore puts a state into a new Sim and begins again what was being delivered.
func (s *Sim) restore(st state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset.Store(int64(st.Offset))
	s.due = st.Due
	for _, h := range st.Hooks {
		h.Object.secrets = h.Secrets
		s.hooks.add(h.Object.ID, h.Object)
	}
	fill(&s.products, st.Products, func(v *product) string { return v.ID })
	fill(&s.prices, st.Prices, func(v *price) string { return v.ID })
	fill(&s.coupons, st.Coupons, func(v *coupon) string { return v.ID })
	fill(&s.promos, st.Promos, func(v *promotionCode) string { return v.ID })
	for _, v := range s.promos.oldest() {
		v.Coupon = s.coupons.get(v.Coupon.ID) // one object again, not two that part
	}
	for _, m := range st.Methods {
		m.Object.test = m.Test
		s.methods.add(m.Object.ID, m.Object)
	}
	for _, v := range st.Sessions {
		v.Object.items, v.Object.intent, v.Object.discount, v.Object.promo = v.Lines, v.Intent, v.Discount, v.Promo
		for i := range v.Object.items {
			if of := s.prices.get(v.Object.items[i].Price.ID); of != nil {
				v.Object.items[i].Price = of
			}
		}
		s.sessions.add(v.Object.ID, v.Object)
		if v.Object.Status == "open" {
			s.expiresAt(v.Object.ExpiresAt)
		}
	}
	fill(&s.intents, st.Intents, func(v *paymentIntent) string { return v.ID })
	fill(&s.charges, st.Charges, func(v *charge) string { return v.ID })
	fill(&s.refunds, st.Refunds, func(v *refund) string { return v.ID })
	fill(&s.disputes, st.Disputes, func(v *dispute) string { return v.ID })
	for name, k := range st.Keys {
		s.keys[name] = &keyed{
			requestID: k.RequestID, endpoint: k.Endpoint, params: k.Params, at: k.At, done: true,
			answer: answer{status: k.Status, body: k.Body, saved: true, retryAfter: k.RetryAfter},
		}
	}
	for _, v := range st.Events {
		s.restoreEvent(v)
	}
}

func (s *Sim) restoreEvent(v storedEvent) {
	e := &event{
		object: v.Object, snapshot: v.Snapshot, older: v.Older, since: v.Since, created: v.Created, pending: map[string]bool{},
		running: map[string]int{},
	}
	e.body = encode(e.object)
	for _, id := range v.Pending {
		e.pending[id] = true
	}
	s.events.add(e.object.ID, e)
	for id, n := range v.Running {
		for range n {
			s.startDelivery(e, id, s.cfg.Delay)
		}
	}
}

func fill[T any](t *table[T], rows []*T, id func(*T) string) {
	for _, v := range rows {
		t.add(id(v), v)
	}
}
