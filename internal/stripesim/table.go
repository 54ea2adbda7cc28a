package stripesim

import "slices"

// table keeps the objects of one kind by id and in the order of their creation. Its zero value is empty.
type table[T any] struct {
	ids  []string
	rows map[string]*T
}

func (t *table[T]) add(id string, v *T) {
	if t.rows == nil {
		t.rows = map[string]*T{}
	}
	if _, known := t.rows[id]; !known {
		t.ids = append(t.ids, id)
	}
	t.rows[id] = v
}

// get returns nil for an id that is not there.
func (t *table[T]) get(id string) *T { return t.rows[id] }

func (t *table[T]) remove(id string) {
	delete(t.rows, id)
	t.ids = slices.DeleteFunc(t.ids, func(v string) bool { return v == id })
}

func (t *table[T]) len() int { return len(t.ids) }

// oldest returns all in the order of creation.
func (t *table[T]) oldest() []*T {
	out := make([]*T, len(t.ids))
	for i, id := range t.ids {
		out[i] = t.rows[id]
	}
	return out
}

// newest returns those that keep wants, in Stripe's list order: the last created comes first.
func (t *table[T]) newest(keep func(*T) bool) []*T {
	var out []*T
	for _, id := range slices.Backward(t.ids) {
		if v := t.rows[id]; keep == nil || keep(v) {
			out = append(out, v)
		}
	}
	return out
}
