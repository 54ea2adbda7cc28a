// Package stripesim is a stateful stand-in for Stripe's API at version 2024-06-20: stripe-go and curl can talk to it, a
// buyer can pay at it, and it delivers signed events as Stripe does. With it an order is created, paid and fulfilled
// without an account, and a test can make happen what Stripe makes happen only sometimes.
//
// It owns its objects (checkout sessions, payment intents, charges, events), the answers it remembers per
// Idempotency-Key, and the deliveries of its events. Everything is in memory and ends with [Sim.Close].
//
// It promises:
//   - Object shapes are Stripe's: every field Stripe sends is there, null where Stripe sends null, in Stripe's order.
//   - An event's body never changes once created: retries, duplicates and [Sim.Deliver] send the same bytes under the
//     same id, each with a timestamp and signature of its own.
//   - The same Idempotency-Key with the same parameters does the work once and answers the same again.
//   - Nothing of it outlives Close.
//
// It will not: move money, judge a card, take live keys unless told to be live, or stand in for Stripe where exact
// behavior matters beyond what it lists. A parameter Stripe knows and the simulation does not is refused by name rather
// than ignored. It knows nothing of the application that uses it.
//
// Simplified: a session expires when [Sim.Expire] or the API says so; Stripe also does it by itself at expires_at.
//
// # How to read it
//
// sim.go is the state and its life. api.go takes a request through faults, keys and endpoints; api_*.go are the endpoints.
// actions.go is what a buyer does. events.go and deliver.go turn that into signed posts. objects_*.go are the shapes.
//
// Facts are from https://docs.stripe.com/api and the pages named beside the code.
package stripesim
