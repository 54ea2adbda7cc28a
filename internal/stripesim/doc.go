// Package stripesim is a stateful stand-in for Stripe's API at version 2024-06-20: stripe-go, Stripe's other libraries, the
// Stripe CLI and curl can talk to it, a buyer can pay at it, and it delivers signed events as Stripe does. With it an order
// is created, paid, refunded and disputed without an account, and a test can make happen what Stripe makes happen only
// sometimes.
//
// It owns its objects (products, prices, coupons, checkout sessions, payment methods, payment intents, charges, refunds,
// disputes, events, webhook endpoints), the answers it remembers per Idempotency-Key, and the deliveries of its events.
// With [New] everything is in memory and ends with [Sim.Close]; with [Open] it is also in a file, and goes on from there.
//
// It promises:
//   - Object shapes are Stripe's: every field Stripe sends is there, null where Stripe sends null, in Stripe's order.
//   - An event's body never changes once created: retries, duplicates and [Sim.Deliver] send the same bytes under the
//     same id, each with a timestamp and signature of its own. Endpoints of another API version, and thin ones, have bytes
//     of their own, as stable.
//   - The same Idempotency-Key with the same parameters does the work once and answers the same again, for 24 hours.
//   - Time is its own: [Sim.Advance] moves it, and whatever is due by then happens.
//   - Nothing of it runs on after Close.
//
// It will not: move money, judge a card, take live keys unless told to be live, or stand in for Stripe where exact
// behavior matters beyond what it lists. A parameter Stripe knows and the simulation does not is refused by name rather
// than ignored. Customers, subscriptions, invoices and Connect are not here. It knows nothing of the application that uses
// it.
//
// # How it is driven
//
// By HTTP: the API, the page of a session (/pay/…) where a person pays, declines, refunds and disputes, and /_sim/ for the
// clock and for faults. By Go: [Sim.Pay], [Sim.Decline], [Sim.Expire], [Sim.SettleDelayed], [Sim.Capture], [Sim.Refund],
// [Sim.FailRefund], [Sim.OpenDispute], [Sim.CloseDispute], each of which returns the events it has made; with [Held] they
// are kept back, for a test to post in the order it likes. By test cards: 4000000000000259 is disputed, 4000000000005126
// lets its refunds fail, and so on as in Stripe's own list.
//
// # How to read it
//
// sim.go is the state and its life, clock.go its time, state.go its file. api.go takes a request through faults, limits,
// keys and endpoints; routes.go lists them, api_*.go are what they do. actions.go is what a buyer does, actions_after.go
// what comes of it later; payment.go, refund.go, dispute.go and totals.go are the rules both share. events.go, versions.go,
// webhooks.go and deliver.go turn that into signed posts. objects_*.go are the shapes.
//
// Package judges holds it against programs that Stripe wrote.
//
// Facts are from https://docs.stripe.com/api and the pages named beside the code.
package stripesim
