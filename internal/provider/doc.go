// Package provider talks to payment providers: it reads their objects, and changes them
// through calls that are written down first.
//
// It owns the table provider_calls and every outgoing request to a provider. It promises:
//
//   - a call that changes something has a committed row, with its key and its exact bytes,
//     before anything is sent; every retry sends the same bytes under the same key (I7);
//   - no call is made inside a transaction, and no connection to the database is held while
//     the provider is thinking (I8);
//   - a key is not used beyond the time for which the provider remembers it: what the call
//     did is looked for then, and adopted, or a person is asked.
//
// It will not decide what to call or what an answer means: orders and fulfillment say so.
//
// Read [Calls.Intend], then [Calls.Perform].
package provider
