package stripesim

import (
	"reflect"
	"slices"
	"strings"
)

// expandParam is expand[], which every endpoint takes (https://docs.stripe.com/api/expanding_objects).
func expandParam() spec { return arrayOf(spec{}) }

func cannotExpand(path string) *apiError {
	return invalid("", "expand", "This property cannot be expanded (%s).", path)
}

// expandDepth is how deep Stripe lets a path go.
const expandDepth = 4

// expandable says what stands behind a reference of this name. Those that lead to nothing here are always null or stay an
// id: Stripe would expand them, so to ask is no mistake.
func expandable(name string) (reflect.Type, bool) {
	switch name {
	case "payment_intent":
		return reflect.TypeFor[paymentIntent](), true
	case "latest_charge", "charge":
		return reflect.TypeFor[charge](), true
	case "product":
		return reflect.TypeFor[product](), true
	case "default_price":
		return reflect.TypeFor[price](), true
	case "dispute":
		return reflect.TypeFor[dispute](), true
	case "payment_method":
		return reflect.TypeFor[paymentMethod](), true
	case "balance_transaction", "failure_balance_transaction", "customer", "invoice", "review", "payment_link",
		"setup_intent", "subscription", "application", "on_behalf_of", "source_transfer_reversal", "transfer_reversal":
		return nil, true
	}
	return nil, false
}

// checkExpand refuses, before anything is done, a path that leads nowhere from an object like sample.
func checkExpand(sample any, paths []string) *apiError {
	for _, path := range paths {
		steps := strings.Split(path, ".")
		typ := reflect.TypeOf(sample)
		if typ.Kind() == reflect.Slice {
			if steps[0] != "data" || len(steps) == 1 {
				return cannotExpand(path)
			}
			steps, typ = steps[1:], typ.Elem()
		}
		if len(steps) > expandDepth || !leads(typ, steps) {
			return cannotExpand(path)
		}
	}
	return nil
}

func leads(typ reflect.Type, steps []string) bool {
	if len(steps) == 0 {
		return true
	}
	if typ == nil {
		return false
	}
	f, ok := fieldOf(typ, steps[0])
	if !ok {
		return false
	}
	for f.Type.Kind() == reflect.Pointer {
		f.Type = f.Type.Elem()
	}
	switch {
	case f.Type == reflect.TypeFor[list]():
		return len(steps) == 1 || steps[1] == "data" && leads(reflect.TypeFor[lineItem](), steps[2:])
	case f.Type == reflect.TypeFor[ref](), f.Type == reflect.TypeFor[none]():
		to, known := expandable(steps[0])
		return known && leads(to, steps[1:])
	case f.Type.Kind() == reflect.Struct:
		return len(steps) > 1 && leads(f.Type, steps[1:]) // always there, as a line's price
	}
	return false
}

func fieldOf(typ reflect.Type, name string) (reflect.StructField, bool) {
	for i := range typ.NumField() {
		if tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); tag == name {
			return typ.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

// expand returns v with the objects that paths, which checkExpand has passed, put in the place of their ids. v itself is
// left as it is. s.mu is held.
func (s *Sim) expand(v any, paths []string) any {
	for _, path := range paths {
		v = s.expandOne(v, strings.Split(path, "."))
	}
	return v
}

func (s *Sim) expandOne(v any, steps []string) any {
	if len(steps) == 0 {
		return v
	}
	if l, ok := v.(*list); ok {
		if steps[0] != "data" {
			return v
		}
		out := *l
		out.Data = slices.Clone(l.Data)
		for i := range out.Data {
			out.Data[i] = s.expandOne(out.Data[i], steps[1:])
		}
		return &out
	}
	from := reflect.ValueOf(v)
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return v
		}
		from = from.Elem()
	}
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	f, ok := fieldOf(from.Type(), steps[0])
	if !ok {
		return v
	}
	field := to.Elem().FieldByIndex(f.Index)
	switch old := field.Interface().(type) {
	case ref:
		object := old.object
		if object == nil {
			object = s.lookUp(old.id)
		}
		if object == nil {
			return v
		}
		field.Set(reflect.ValueOf(ref{id: old.id, object: s.expandOne(object, steps[1:])}))
	case *list:
		lines := old
		if of, ok := v.(*session); ok && lines == nil {
			lines = firstLines(of)
		}
		if l, ok := s.expandOne(lines, steps[1:]).(*list); ok {
			field.Set(reflect.ValueOf(l))
		}
	default:
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			field.Set(reflect.ValueOf(s.expandOne(field.Interface(), steps[1:])))
		}
	}
	return to.Interface()
}

// lookUp finds an object by its id alone, whatever its kind; nil if there is none.
func (s *Sim) lookUp(id string) any {
	switch {
	case s.intents.get(id) != nil:
		return s.intents.get(id)
	case s.charges.get(id) != nil:
		return s.charges.get(id)
	case s.products.get(id) != nil:
		return s.products.get(id)
	case s.prices.get(id) != nil:
		return s.prices.get(id)
	case s.disputes.get(id) != nil:
		return s.disputes.get(id)
	case s.methods.get(id) != nil:
		return s.methods.get(id)
	}
	return nil
}
