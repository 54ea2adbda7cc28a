// Package fulfillment turns stored events into fulfilled orders.
//
// It owns the drain of the inbox, the jobs and their limits, and the table sent_receipts.
// It promises that each step is one of two shapes: database work in one transaction, or one
// remote call and then one transaction (I8); that the transaction which makes a step true
// also enqueues the next one and completes its own job; and that a step which runs again,
// because its process died or its answer was lost, has no second effect.
//
// It will not verify webhooks, decide the state of an order, or make keys: webhooks, orders
// and licenses do, and this package is where the three meet.
//
// Read [Drainer.Drain] (TX2), then [Service.FulfillOrder] (TX3), then [Service.SendReceipt]
// and [Service.PerformCall] (one remote call, then TX4). jobs.go has every job, its queue
// and its limits on one screen.
package fulfillment
