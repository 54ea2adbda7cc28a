// Package orders is what was promised to a buyer and what the provider said about the money.
//
// It owns the tables products, orders, order_lines, payments, payment_resources,
// order_transitions and api_requests. It promises:
//
//   - an order is paid at most once, for ever (I3);
//   - money counts only where what was received is what was agreed (I4);
//   - the state of an order is a pure function of its merged facts, so that any order of
//     arrival, with any repetition, ends the same (I5);
//   - a payment belongs to an order because its id was recorded here, never because an
//     event says so.
//
// It will not call a provider, send anything, or begin a transaction inside one: what it
// does about an event it does in the caller's transaction, and what follows from a state
// (licenses, mails, jobs) is a [Follower]'s business.
//
// Read [Target] first: the whole policy is one function over facts. Then the machine, which
// only finds the named steps from the present state to the target; then [Store.Apply],
// which merges a fact and walks.
package orders
