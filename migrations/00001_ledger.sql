-- The ledger of inbound webhooks is also the queue of work they cause: one row is
-- stored before the provider gets its 2xx, and the same row carries the state of the
-- processing. There is no second write between "stored" and "enqueued" that a crash
-- could lose (I1).

-- +goose Up
CREATE TABLE webhook_deliveries (
    provider        text        NOT NULL,
    event_id        text        NOT NULL, -- from the verified body, never from an unsigned header
    event_type      text        NOT NULL,
    resource_id     text        NOT NULL, -- '' when the event names no object
    livemode        boolean     NOT NULL,
    account         text        NOT NULL, -- '' for an event of the account that owns the endpoint
    api_version     text        NOT NULL, -- any length: beta suffixes are long
    occurred_at     timestamptz,          -- NULL: the event does not say
    received_at     timestamptz NOT NULL,
    source          text        NOT NULL,
    body            bytea       NOT NULL, -- byte for byte as it was signed: text and jsonb refuse some of it

    -- The work. processed_at IS NULL means open.
    opened_at       timestamptz NOT NULL, -- received, or opened again by a redelivery or a release
    attempts        integer     NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    claim           uuid,                 -- NULL: nobody has it. Set and lapsed: whoever had it never finished
    claim_until     timestamptz,
    last_error      text,                 -- NULL: no attempt failed
    processed_at    timestamptz,
    outcome         text,                 -- NULL: never looked at
    detail          text,                 -- NULL: the outcome says it all

    -- Invariant I2: one row per event of a provider.
    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (provider, event_id),
    CONSTRAINT webhook_deliveries_event_id_present CHECK (event_id <> ''),
    CONSTRAINT webhook_deliveries_source CHECK (source IN ('webhook', 'reconcile', 'return')),
    CONSTRAINT webhook_deliveries_outcome CHECK (outcome IN
        ('applied', 'already', 'stale', 'read', 'parked', 'foreign', 'ignored', 'unsupported', 'held', 'dead')),
    -- A parked row is open and will be tried again; every other outcome ends the row.
    CONSTRAINT webhook_deliveries_open_or_ended CHECK ((processed_at IS NULL) = (outcome IS NULL OR outcome = 'parked')),
    CONSTRAINT webhook_deliveries_claim_has_lease CHECK ((claim IS NULL) = (claim_until IS NULL)),
    CONSTRAINT webhook_deliveries_attempts_not_negative CHECK (attempts >= 0)
);

-- Every row dies in the open index once. Left to the default fifth of the table, a vacuum
-- would come so late that each claim wades through the dead entries of a million rows.
ALTER TABLE webhook_deliveries SET (autovacuum_vacuum_scale_factor = 0.01);

-- What a drainer looks for: small however long the history grows.
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (next_attempt_at) WHERE processed_at IS NULL;

-- Every id that a parked, foreign or unmatched delivery names, so that learning any one
-- of them finds the delivery again.
CREATE TABLE delivery_resources (
    provider    text NOT NULL,
    resource_id text NOT NULL,
    event_id    text NOT NULL,
    CONSTRAINT delivery_resources_pkey PRIMARY KEY (provider, resource_id, event_id),
    CONSTRAINT delivery_resources_delivery FOREIGN KEY (provider, event_id)
        REFERENCES webhook_deliveries (provider, event_id) ON DELETE CASCADE
);

CREATE INDEX delivery_resources_event ON delivery_resources (provider, event_id);

-- +goose Down
DROP TABLE delivery_resources;
DROP TABLE webhook_deliveries;
