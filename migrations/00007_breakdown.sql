-- What a total is made of. Where a checkout allows promotion codes or adds tax, its total is
-- not what was asked for; its subtotal is, and the total has to be the sum (I4).

-- +goose Up
ALTER TABLE payments
    ADD COLUMN adjustable     boolean NOT NULL DEFAULT false, -- promotion codes, tax or shipping may change its total
    ADD COLUMN subtotal_minor bigint,                         -- NULL, with the next three: the success did not state it
    ADD COLUMN discount_minor bigint,
    ADD COLUMN tax_minor      bigint,
    ADD COLUMN shipping_minor bigint,
    ADD CONSTRAINT payments_breakdown_whole CHECK
        (num_nulls(subtotal_minor, discount_minor, tax_minor, shipping_minor) IN (0, 4)),
    ADD CONSTRAINT payments_breakdown_not_negative CHECK
        (subtotal_minor >= 0 AND discount_minor >= 0 AND tax_minor >= 0 AND shipping_minor >= 0);

-- +goose Down
ALTER TABLE payments
    DROP COLUMN adjustable,
    DROP COLUMN subtotal_minor,
    DROP COLUMN discount_minor,
    DROP COLUMN tax_minor,
    DROP COLUMN shipping_minor;
