-- Orders are what was promised; payments are what the provider said, merged. An order's
-- state is never set by an event: it is computed from its payments, and the transitions
-- that lead there are written down (I3, I5).

-- +goose Up
CREATE TABLE products (
    sku        text        NOT NULL,
    name       text        NOT NULL,
    unit_minor bigint      NOT NULL, -- in minor units of the currency: 1999 is 19.99 usd, 100 is 100 jpy
    currency   text        NOT NULL,
    active     boolean     NOT NULL DEFAULT true,
    updated_at timestamptz NOT NULL,
    CONSTRAINT products_pkey PRIMARY KEY (sku),
    CONSTRAINT products_sku_length CHECK (length(sku) BETWEEN 1 AND 200), -- it becomes part of a license key, which is indexed
    CONSTRAINT products_unit_not_negative CHECK (unit_minor >= 0),
    CONSTRAINT products_currency_lower CHECK (currency ~ '^[a-z]{3}$')
);

CREATE TABLE orders (
    id            uuid        NOT NULL, -- v7: ids of one second lie together in the index
    number        bigint      GENERATED ALWAYS AS IDENTITY, -- what a person reads out; gaps are normal
    email         text        NOT NULL,
    locale        text        NOT NULL,
    currency      text        NOT NULL,
    total_minor   bigint      NOT NULL,
    state         text        NOT NULL,
    decision      text        NOT NULL DEFAULT 'none',
    review_reason text,                 -- NULL unless the state is review
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    paid_at       timestamptz,          -- NULL: no pay transition yet; set once, never cleared
    fulfilled_at  timestamptz,          -- NULL: licenses were never issued; set once, never cleared
    CONSTRAINT orders_pkey PRIMARY KEY (id),
    CONSTRAINT orders_number_key UNIQUE (number),
    CONSTRAINT orders_state CHECK (state IN ('pending', 'confirming', 'paid', 'fulfilled', 'review', 'failed',
        'expired', 'canceled', 'refunded', 'disputed', 'charged_back')),
    CONSTRAINT orders_decision CHECK (decision IN ('none', 'canceled', 'accepted')),
    CONSTRAINT orders_review_has_reason CHECK ((state = 'review') = (review_reason IS NOT NULL)),
    CONSTRAINT orders_review_reason CHECK (review_reason IN ('amount', 'currency', 'capture', 'paid_after_cancel')),
    CONSTRAINT orders_total_not_negative CHECK (total_minor >= 0),
    CONSTRAINT orders_currency_lower CHECK (currency ~ '^[a-z]{3}$')
);

CREATE TABLE order_lines (
    id         uuid    NOT NULL,
    order_id   uuid    NOT NULL REFERENCES orders (id),
    position   integer NOT NULL, -- from 1, as the buyer ordered
    sku        text    NOT NULL, -- copied, with name and price: a later price change changes no order
    name       text    NOT NULL,
    quantity   integer NOT NULL,
    unit_minor bigint  NOT NULL,
    CONSTRAINT order_lines_pkey PRIMARY KEY (id),
    CONSTRAINT order_lines_position_key UNIQUE (order_id, position),
    CONSTRAINT order_lines_order_key UNIQUE (order_id, id), -- for licenses to refer to
    CONSTRAINT order_lines_quantity_positive CHECK (quantity > 0),
    CONSTRAINT order_lines_unit_not_negative CHECK (unit_minor >= 0)
);

-- A payment is one checkout at one provider.
CREATE TABLE payments (
    id                uuid        NOT NULL,
    order_id          uuid        NOT NULL REFERENCES orders (id),
    provider          text        NOT NULL,
    resource_id       text,                 -- the checkout object; NULL until the provider has answered
    livemode          boolean     NOT NULL,
    account           text        NOT NULL, -- '' for our own account
    checkout_url      text,                 -- NULL until the provider has answered
    currency          text        NOT NULL,
    expected_minor    bigint      NOT NULL, -- what the buyer was asked for
    adjustable        boolean     NOT NULL DEFAULT false, -- promotion codes, tax or shipping may change its total
    status            text        NOT NULL DEFAULT 'open',
    received_minor    bigint,               -- NULL: no success was stated
    received_currency text,
    intended_minor    bigint,               -- what the success says was asked for; differs from received when captured for less
    subtotal_minor    bigint,               -- what the total is made of: where a checkout is adjustable its subtotal is
    discount_minor    bigint,               -- what was asked for, and the total has to be the sum (I4). NULL, all four:
    tax_minor         bigint,               -- the success did not state it
    shipping_minor    bigint,
    object_created_at timestamptz,          -- the provider's own creation time of the checkout object
    return_read_at    timestamptz,          -- when the buyer's return page last read the checkout; NULL: never
    refunded_minor    bigint      NOT NULL DEFAULT 0,
    accepted_minor    bigint,               -- NULL: no person accepted another amount
    accepted_currency text,
    accepted_by       text,
    accepted_at       timestamptz,
    read_wanted       bigint      NOT NULL DEFAULT 0, -- how often a hint asked for a read
    read_seq          bigint      NOT NULL DEFAULT 0, -- the newest wish that a stored read has answered
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    CONSTRAINT payments_pkey PRIMARY KEY (id),
    CONSTRAINT payments_resource_key UNIQUE (provider, resource_id),
    CONSTRAINT payments_status CHECK (status IN ('open', 'processing', 'failed', 'expired', 'canceled', 'succeeded')),
    CONSTRAINT payments_success_has_amount CHECK
        ((status = 'succeeded') = (received_minor IS NOT NULL AND received_currency IS NOT NULL)),
    CONSTRAINT payments_amounts_not_negative CHECK
        (expected_minor >= 0 AND received_minor >= 0 AND intended_minor >= 0 AND refunded_minor >= 0 AND accepted_minor >= 0),
    CONSTRAINT payments_breakdown_whole CHECK
        (num_nulls(subtotal_minor, discount_minor, tax_minor, shipping_minor) IN (0, 4)),
    CONSTRAINT payments_breakdown_not_negative CHECK
        (subtotal_minor >= 0 AND discount_minor >= 0 AND tax_minor >= 0 AND shipping_minor >= 0),
    CONSTRAINT payments_accepted_whole CHECK
        ((accepted_minor IS NULL) = (accepted_currency IS NULL) AND (accepted_minor IS NULL) = (accepted_by IS NULL))
);

CREATE INDEX payments_order ON payments (order_id);

-- Every id under which the provider may speak of a payment: cs_, pi_, ch_, in_. A payment
-- belongs to an order because we recorded its id here, never because an event says so.
CREATE TABLE payment_resources (
    provider    text        NOT NULL,
    resource_id text        NOT NULL,
    payment_id  uuid        NOT NULL REFERENCES payments (id),
    learned_at  timestamptz NOT NULL,
    CONSTRAINT payment_resources_pkey PRIMARY KEY (provider, resource_id)
);

CREATE INDEX payment_resources_payment ON payment_resources (payment_id);

-- What was learned lately, for the sweep that brings back deliveries which were waiting.
CREATE INDEX payment_resources_learned ON payment_resources (learned_at);

CREATE TABLE order_transitions (
    id             bigint      GENERATED ALWAYS AS IDENTITY,
    order_id       uuid        NOT NULL REFERENCES orders (id),
    event          text        NOT NULL,
    from_state     text        NOT NULL,
    to_state       text        NOT NULL,
    cause_provider text        NOT NULL, -- the provider of the event, or 'job' or 'person'
    cause_event_id text        NOT NULL,
    at             timestamptz NOT NULL,
    CONSTRAINT order_transitions_pkey PRIMARY KEY (id),
    CONSTRAINT order_transitions_event CHECK (event IN ('confirm', 'pay', 'fulfill', 'hold', 'expire', 'fail', 'cancel',
        'reopen', 'refund', 'dispute', 'win', 'lose', 'restore'))
);

CREATE INDEX order_transitions_order ON order_transitions (order_id, id);

-- Invariant I3: an order is paid once, for ever. The row lock and the machine come first;
-- this index is what holds if both are wrong.
CREATE UNIQUE INDEX order_transitions_paid_once ON order_transitions (order_id) WHERE event = 'pay';

-- History is only ever added to.
-- +goose StatementBegin
CREATE FUNCTION order_transitions_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'order_transitions is append-only' USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER order_transitions_append_only BEFORE UPDATE OR DELETE ON order_transitions
    FOR EACH ROW EXECUTE FUNCTION order_transitions_append_only();

CREATE TRIGGER order_transitions_no_truncate BEFORE TRUNCATE ON order_transitions
    FOR EACH STATEMENT EXECUTE FUNCTION order_transitions_append_only();

-- +goose Down
DROP TABLE order_transitions;
DROP FUNCTION order_transitions_append_only();
DROP TABLE payment_resources;
DROP TABLE payments;
DROP TABLE order_lines;
DROP TABLE orders;
DROP TABLE products;
