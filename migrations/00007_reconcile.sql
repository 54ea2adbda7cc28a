-- What comparing ourselves with the provider found (I9).

-- +goose Up
CREATE TABLE reconcile_runs (
    id           uuid        NOT NULL, -- v7
    provider     text        NOT NULL,
    livemode     boolean     NOT NULL, -- one world a run: modes and accounts never mix
    account      text        NOT NULL,
    since        timestamptz NOT NULL, -- the window: since <= created < until, UTC
    until        timestamptz NOT NULL,
    stage        text        NOT NULL, -- where it is, for one that is resumed
    cursor       text        NOT NULL DEFAULT '', -- the last object of the last page that was worked through
    counts       jsonb       NOT NULL DEFAULT '{}',
    started_at   timestamptz NOT NULL,
    owner        uuid,                 -- of the process that is at it; NULL: it was left, and can be resumed
    beat_at      timestamptz NOT NULL, -- of that process; long ago: it died, and the run can be resumed
    finished_at  timestamptz,
    outcome      text,                 -- NULL until finished
    error        text,                 -- why it was left; NULL: it was not, or has gone on since
    CONSTRAINT reconcile_runs_pkey PRIMARY KEY (id),
    CONSTRAINT reconcile_runs_outcome CHECK (outcome IN ('clean', 'drift', 'unsure')),
    CONSTRAINT reconcile_runs_finished_has_outcome CHECK ((finished_at IS NULL) = (outcome IS NULL)),
    CONSTRAINT reconcile_runs_window CHECK (since < until)
);

-- One run at a time in each world: the next one resumes it, or is refused while it is alive.
CREATE UNIQUE INDEX reconcile_runs_one_open ON reconcile_runs (provider, livemode, account) WHERE finished_at IS NULL;

CREATE INDEX reconcile_runs_finished ON reconcile_runs (provider, livemode, account, finished_at);

CREATE TABLE reconcile_findings (
    id            uuid        NOT NULL,
    run_id        uuid        NOT NULL REFERENCES reconcile_runs (id), -- the run that last saw it
    kind          text        NOT NULL,
    provider      text        NOT NULL,
    resource_id   text        NOT NULL, -- the object, the order, the delivery that it is about
    order_id      uuid        REFERENCES orders (id), -- NULL: no order is known for it
    object_at     timestamptz,          -- when the provider made the object; NULL: it is about our own rows
    theirs        text        NOT NULL, -- the provider's view, in words
    ours          text        NOT NULL,
    action        text        NOT NULL, -- what was done about it
    first_seen_at timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL,
    healed_at     timestamptz,          -- NULL: still so; set by the run that no longer sees it
    acked_at      timestamptz,          -- NULL: nobody has acknowledged it
    acked_by      text,
    ack_reason    text,
    CONSTRAINT reconcile_findings_pkey PRIMARY KEY (id),
    CONSTRAINT reconcile_findings_once UNIQUE (run_id, kind, resource_id),
    CONSTRAINT reconcile_findings_ack_whole CHECK
        ((acked_at IS NULL) = (acked_by IS NULL) AND (acked_at IS NULL) = (ack_reason IS NULL))
);

-- One thing that is wrong is one open finding, however many runs see it.
CREATE UNIQUE INDEX reconcile_findings_open ON reconcile_findings (provider, kind, resource_id) WHERE healed_at IS NULL;

-- What a run asks of the other tables, page by page: the payments whose checkouts were made in
-- a window, and the dead among millions of deliveries.
CREATE INDEX payments_object_created ON payments (provider, object_created_at);
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (received_at) WHERE outcome = 'dead';

-- +goose Down
DROP INDEX webhook_deliveries_dead;
DROP INDEX payments_object_created;
DROP TABLE reconcile_findings;
DROP TABLE reconcile_runs;
