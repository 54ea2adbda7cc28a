// Stripe's own package for Node.js against a simulated Stripe at SIM_URL: it reads, pages, refunds, meets errors and
// verifies a delivery. What it finds goes out as one line of JSON.
import Stripe from 'stripe';
import assert from 'node:assert/strict';

const at = new URL(process.env.SIM_URL);
const stripe = new Stripe('sk_test_judge', {
  host: at.hostname, port: Number(at.port), protocol: 'http', apiVersion: '2024-06-20', telemetry: false, maxNetworkRetries: 0,
});
const session = process.env.SESSION;

// Reading, with expansion.
const got = await stripe.checkout.sessions.retrieve(session, {expand: ['line_items', 'payment_intent.latest_charge']});
assert.equal(got.payment_status, 'paid');
assert.equal(got.line_items.data.length, 2);
const intent = got.payment_intent;
assert.equal(intent.latest_charge.object, 'charge');

// Lists: newest first, all pages by the package's own iterator, forward and backward.
const all = [];
for await (const s of stripe.checkout.sessions.list({limit: 2})) all.push(s.id);
assert.equal(all.length, Number(process.env.SESSIONS));
assert.equal(all.at(-1), session);
const back = [];
for await (const s of stripe.checkout.sessions.list({limit: 2, ending_before: session})) back.push(s.id);
assert.deepEqual(back, all.slice(0, -1).reverse());
assert.equal((await stripe.paymentIntents.list({limit: 1})).data[0].object, 'payment_intent');
assert.equal((await stripe.charges.list({payment_intent: intent.id})).data[0].id, intent.latest_charge.id);

// Refunds: partial, repeated under one key, refused when too large.
const params = {payment_intent: intent.id, amount: 100, metadata: {why: 'test'}};
const refund = await stripe.refunds.create(params, {idempotencyKey: 'judge:1'});
const again = await stripe.refunds.create(params, {idempotencyKey: 'judge:1'});
assert.equal(again.id, refund.id);
assert.equal(again.lastResponse.headers['idempotent-replayed'], 'true');
assert.equal((await stripe.refunds.retrieve(refund.id, {expand: ['charge']})).charge.amount_refunded, 100);
assert.equal((await stripe.refunds.list({payment_intent: intent.id})).data.length, 1);
await assert.rejects(stripe.refunds.create({payment_intent: intent.id, amount: 10_000_000}), (e) => {
  assert.ok(e instanceof Stripe.errors.StripeInvalidRequestError);
  assert.equal(e.param, 'amount');
  return true;
});
await assert.rejects(stripe.refunds.create({...params, amount: 101}, {idempotencyKey: 'judge:1'}),
  (e) => e instanceof Stripe.errors.StripeIdempotencyError);

// A declined card.
await assert.rejects(
  stripe.paymentIntents.create({amount: 500, currency: 'eur', payment_method: 'pm_card_chargeDeclined', confirm: true,
    payment_method_types: ['card']}),
  (e) => e instanceof Stripe.errors.StripeCardError && e.decline_code === 'generic_decline' &&
    e.payment_intent.status === 'requires_payment_method');

// A new endpoint, with a secret of its own.
const endpoint = await stripe.webhookEndpoints.create({
  url: process.env.RECEIVER, enabled_events: ['product.created'], api_version: '2024-06-20',
});
assert.match(endpoint.secret, /^whsec_/);
await stripe.products.create({name: 'Judge'});

// A delivery, as a receiver gets it.
const body = Buffer.from(process.env.BODY, 'base64');
const event = stripe.webhooks.constructEvent(body, process.env.SIGNATURE, process.env.SECRET);
assert.equal(event.data.object.id, session);
assert.throws(() => stripe.webhooks.constructEvent(Buffer.concat([body, Buffer.from(' ')]), process.env.SIGNATURE,
  process.env.SECRET), Stripe.errors.StripeSignatureVerificationError);

console.log(JSON.stringify({version: Stripe.PACKAGE_VERSION, refund: refund.id, event: event.id, secret: endpoint.secret}));
