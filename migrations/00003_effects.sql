-- What paidonce does to the outside world. Each effect has a row before it happens, under a
-- key that is ours, so that a crash at any point leaves a trace to look at before acting
-- again (I6, I7).

-- +goose Up
CREATE TABLE licenses (
    id            uuid        NOT NULL,
    order_id      uuid        NOT NULL REFERENCES orders (id),
    order_line_id uuid        NOT NULL,
    ordinal       integer     NOT NULL, -- from 1 to the line's quantity
    sku           text        NOT NULL,
    key           text        NOT NULL, -- key/<base64url>.<base64url>; this stored key wins over any re-derivation
    key_id        text        NOT NULL, -- which signing key made it
    status        text        NOT NULL,
    issued_at     timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    CONSTRAINT licenses_pkey PRIMARY KEY (id),
    -- Invariant I6: one license per (line, ordinal).
    CONSTRAINT licenses_line_ordinal_key UNIQUE (order_line_id, ordinal),
    CONSTRAINT licenses_key_key UNIQUE (key),
    CONSTRAINT licenses_line_of_order FOREIGN KEY (order_id, order_line_id) REFERENCES order_lines (order_id, id),
    CONSTRAINT licenses_ordinal_positive CHECK (ordinal > 0),
    CONSTRAINT licenses_status CHECK (status IN ('active', 'suspended', 'revoked'))
);

CREATE INDEX licenses_order ON licenses (order_id);

CREATE TABLE sent_receipts (
    order_id        uuid        NOT NULL REFERENCES orders (id),
    kind            text        NOT NULL, -- what the mail is about
    subject_id      text        NOT NULL, -- the order's id for a receipt; the refund's, or the dispute's
    idempotency_key text        NOT NULL, -- <kind>:<subject>, and a number if it had to be addressed anew; makes the Message-ID
    request         jsonb,                -- the mail as it will be sent, frozen; its sender from the first sending on
    state           text        NOT NULL,
    sending_until   timestamptz,          -- beyond the call's own deadline; set only while sending
    unknowns        integer     NOT NULL DEFAULT 0, -- how many sendings ended so that nobody knows whether it went out
    resend_at       timestamptz,          -- unknown, and will be sent again then; NULL: it waits for a person
    key_service     text,                 -- the mail service that was given the key; NULL: none, as over SMTP
    key_used_at     timestamptz,          -- since when; it forgets keys after a day
    provider_id     text,                 -- what the transport called it; NULL until it answered
    attempts        integer     NOT NULL DEFAULT 0,
    last_error      text,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    sent_at         timestamptz,
    -- Invariant I7: one mail per order, kind and subject.
    CONSTRAINT sent_receipts_pkey PRIMARY KEY (order_id, kind, subject_id),
    CONSTRAINT sent_receipts_idempotency_key_key UNIQUE (idempotency_key),
    CONSTRAINT sent_receipts_state CHECK (state IN ('intended', 'sending', 'sent', 'unknown', 'parked')),
    CONSTRAINT sent_receipts_sending_has_lease CHECK ((state = 'sending') = (sending_until IS NOT NULL)),
    CONSTRAINT sent_receipts_sent_has_time CHECK ((state = 'sent') = (sent_at IS NOT NULL)),
    CONSTRAINT sent_receipts_resend_is_unknown CHECK (resend_at IS NULL OR state = 'unknown'),
    CONSTRAINT sent_receipts_unknown_is_counted CHECK (state <> 'unknown' OR unknowns > 0),
    CONSTRAINT sent_receipts_key_has_time CHECK ((key_service IS NULL) = (key_used_at IS NULL))
);

-- Every call that changes something at the provider.
CREATE TABLE provider_calls (
    idempotency_key text        NOT NULL, -- <operation>:<row id>; ours, so a retry can never invent a new one
    provider        text        NOT NULL,
    livemode        boolean     NOT NULL, -- the world it is meant for: a process with another key must not make it
    account         text        NOT NULL, -- '' for our own account
    operation       text        NOT NULL,
    subject_id      uuid        NOT NULL, -- the row the call is about: a payment, an order
    path            text        NOT NULL,
    params          bytea       NOT NULL, -- the form body, frozen: every retry sends these bytes
    state           text        NOT NULL DEFAULT 'intended',
    sending_until   timestamptz,
    first_sent_at   timestamptz,          -- NULL: nothing can have happened yet. Stripe may forget a key after 24 h
    last_sent_at    timestamptz,          -- with first_sent_at: when an object that the call made can have come to be
    attempts        integer     NOT NULL DEFAULT 0,
    result_id       text,                 -- NULL: no answer recorded
    last_error      text,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    -- Invariant I7: one call per operation and row.
    CONSTRAINT provider_calls_pkey PRIMARY KEY (idempotency_key),
    CONSTRAINT provider_calls_state CHECK (state IN ('intended', 'sending', 'sent', 'unknown', 'failed')),
    CONSTRAINT provider_calls_sending_has_lease CHECK ((state = 'sending') = (sending_until IS NOT NULL)),
    CONSTRAINT provider_calls_sent_has_result CHECK (state <> 'sent' OR (result_id IS NOT NULL AND finished_at IS NOT NULL))
);

CREATE INDEX provider_calls_subject ON provider_calls (subject_id);

-- +goose Down
DROP TABLE provider_calls;
DROP TABLE sent_receipts;
DROP TABLE licenses;
