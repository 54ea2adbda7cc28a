-- Money that goes back, and what people decide. Refunds and disputes are never taken from an
-- event: each row is what the provider said when the payment was last read (docs/tour.md).

-- +goose Up
ALTER TABLE payments
    ADD COLUMN read_until       timestamptz, -- a reader is at it until then; NULL: none is
    ADD COLUMN charged_currency text,        -- what the buyer's bank was charged in, as last read; NULL: never read
    ADD COLUMN dispute_open     boolean NOT NULL DEFAULT false, -- the buyer's bank has the money, and it is not decided
    ADD COLUMN dispute_lost     boolean NOT NULL DEFAULT false; -- the bank keeps it

CREATE TABLE refunds (
    provider     text        NOT NULL,
    refund_id    text        NOT NULL,
    payment_id   uuid        NOT NULL REFERENCES payments (id),
    amount_minor bigint      NOT NULL, -- of the currency in which the buyer was charged
    currency     text        NOT NULL,
    status       text        NOT NULL, -- the provider's word; a refund can fail after it has succeeded
    created_at   timestamptz NOT NULL, -- the provider's own time
    updated_at   timestamptz NOT NULL,
    CONSTRAINT refunds_pkey PRIMARY KEY (provider, refund_id),
    CONSTRAINT refunds_amount_not_negative CHECK (amount_minor >= 0)
);

CREATE INDEX refunds_payment ON refunds (payment_id);

CREATE TABLE disputes (
    provider     text        NOT NULL,
    dispute_id   text        NOT NULL,
    payment_id   uuid        NOT NULL REFERENCES payments (id),
    amount_minor bigint      NOT NULL,
    currency     text        NOT NULL,
    status       text        NOT NULL, -- the provider's word; warning_… is an inquiry, which moves no money
    reason       text        NOT NULL,
    due_at       timestamptz,          -- by when the provider wants evidence; NULL: it did not say
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    CONSTRAINT disputes_pkey PRIMARY KEY (provider, dispute_id),
    CONSTRAINT disputes_amount_not_negative CHECK (amount_minor >= 0)
);

CREATE INDEX disputes_payment ON disputes (payment_id);

-- What a person decided about an order, with who and why. The id of a refund's decision is the
-- row id in the key of its call, so that a repeated command is the same refund (I7).
CREATE TABLE order_decisions (
    id           uuid        NOT NULL,
    order_id     uuid        NOT NULL REFERENCES orders (id),
    action       text        NOT NULL,
    payment_id   uuid        REFERENCES payments (id), -- what was accepted or is refunded; NULL: the order as such
    amount_minor bigint,                               -- NULL: no amount is part of it
    currency     text,
    surplus      boolean     NOT NULL DEFAULT false,   -- a refund of money that pays for nothing: only while it does
    decided_by   text        NOT NULL,
    reason       text        NOT NULL,
    decided_at   timestamptz NOT NULL,
    CONSTRAINT order_decisions_pkey PRIMARY KEY (id),
    CONSTRAINT order_decisions_action CHECK (action IN ('accept', 'cancel', 'refund', 'email', 'mail')),
    CONSTRAINT order_decisions_has_who_and_why CHECK (decided_by <> '' AND reason <> ''),
    CONSTRAINT order_decisions_amount_whole CHECK ((amount_minor IS NULL) = (currency IS NULL)),
    CONSTRAINT order_decisions_refund_has_payment CHECK (action <> 'refund' OR (payment_id IS NOT NULL AND amount_minor IS NOT NULL AND amount_minor > 0))
);

CREATE INDEX order_decisions_order ON order_decisions (order_id, decided_at);

-- +goose Down
DROP TABLE order_decisions;
DROP TABLE disputes;
DROP TABLE refunds;
ALTER TABLE payments
    DROP COLUMN read_until, DROP COLUMN charged_currency, DROP COLUMN dispute_open, DROP COLUMN dispute_lost;
