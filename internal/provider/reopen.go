package provider

import (
	"context"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"
)

// Repeats reports whether a call of this operation, refused for good, may be made again under
// its own key because a person asks for it.
//
// Refused means that nothing happened under the key, so that making the call is not doing it
// twice. Stripe keeps its answer to a key for a day, unless the request did not pass its
// validation; after that, or then, the same bytes are judged anew. What remains is whether the
// call is still wanted, and that is certain only of one whose effect does not depend on when
// it comes: writing the same ids onto the same object. A checkout that was refused has been
// closed, and the buyer may have another one; money that was to go back may have gone another
// way. For these a person decides anew, and the new decision has a key of its own (I12).
func (o Operation) Repeats() bool { return o == OpFulfill }

// Reopen makes calls that were refused for good intended again, under their own keys, as if
// they had never been sent. It touches none that may not be repeated, and returns the keys of
// those it reopened.
func (c *Calls) Reopen(ctx context.Context, tx *gorm.DB, keys []string) ([]string, error) {
	// Invariant I7: the key stays. A key that was never remembered, or is forgotten, acts
	// once; one that is remembered brings the refusal again. first_sent_at is taken back with
	// the refusal: nothing happened, and the key's life begins with the next sending.
	const reopen = `
UPDATE provider_calls
SET state = 'intended', first_sent_at = NULL, last_sent_at = NULL, finished_at = NULL
WHERE idempotency_key IN (SELECT jsonb_array_elements_text(CAST(@keys AS jsonb))) AND state = 'failed' AND operation IN @operations
RETURNING idempotency_key`
	list, err := json.Marshal(append([]string{}, keys...)) // one parameter, however many there are
	if err != nil {
		return nil, fmt.Errorf("naming %d calls: %w", len(keys), err)
	}
	reopened := []string{}
	err = tx.WithContext(ctx).Raw(reopen, map[string]any{
		"keys": string(list), "operations": []Operation{OpFulfill},
	}).Scan(&reopened).Error
	if err != nil {
		return nil, fmt.Errorf("opening refused calls again: %w", err)
	}
	return reopened, nil
}
