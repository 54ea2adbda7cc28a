// Package webhooks is the way in: it verifies what providers post, stores it, and answers.
//
// It owns the tables webhook_deliveries and delivery_resources, and the HTTP answers that
// providers get. It promises:
//
//   - nothing is acknowledged that is not committed, and what is committed is the work
//     itself: there is no second write between storing and enqueueing (I1);
//   - the key of a delivery is the event id inside the verified body; a repeat is answered
//     "duplicate", waits for no work on it, and never hides a row that is still open (I2);
//   - the bytes that were signed are the bytes that are kept.
//
// It will not decide what an event means for an order: it reads a body into a normalized
// [Event], and the fulfillment package does the rest. It knows no orders.
//
// Read [Handler] for the door, then [Inbox.Record] for the one statement behind it, then
// [Inbox.Claim] for how the stored rows are handed out as work. [Stripe] shows what a
// provider has to bring: Verify at the door, Parse behind it.
package webhooks
