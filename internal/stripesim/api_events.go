package stripesim

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

func eventFilters() map[string]spec {
	return map[string]spec{
		"type": {}, "types": arrayOf(spec{}), "created": {kind: span}, "delivery_success": {kind: boolean},
	}
}

// eventWindow is how long Stripe shows an event (https://docs.stripe.com/api/events/list).
const eventWindow = 30 * 24 * time.Hour

func (s *Sim) getEvent(req *request) (any, *apiError) {
	e := s.events.get(req.target)
	if e == nil || e.created.Before(req.now.Add(-eventWindow)) {
		return nil, noSuch("event", req.target, "id")
	}
	o := e.current()
	return &o, nil
}

// retryParams and retryEvent are behind stripe events resend; Stripe documents the command alone
// (https://docs.stripe.com/cli/events/resend).
func retryParams() spec {
	return fields(map[string]spec{"webhook_endpoint": {}, "account": {}, "expand": expandParam()})
}

func (s *Sim) retryEvent(req *request) (any, *apiError) {
	e := s.events.get(req.target)
	if e == nil || e.created.Before(req.now.Add(-eventWindow)) {
		return nil, noSuch("event", req.target, "id")
	}
	if id := req.params.str("webhook_endpoint"); id != "" && s.hooks.get(id) == nil {
		return nil, refused("resource_missing", "webhook_endpoint", "No such webhook endpoint: '%s'", id)
	}
	s.redeliver(e, req.params.str("webhook_endpoint"))
	o := e.current()
	return &o, nil
}

// listEvents answers newest first (https://docs.stripe.com/api/events/list). Events of one second keep the order of
// their creation.
func (s *Sim) listEvents(req *request) (any, *apiError) {
	p := req.params
	types := p.strs("types")
	switch {
	case len(types) > 20:
		return nil, invalid("", "types", "At most 20 types can be given.")
	case len(types) > 0 && p.get("type") != nil:
		return nil, invalid("", "type", "Give type or types, not both.")
	}
	if p.get("type") != nil {
		types = []string{p.str("type")}
	}
	all := s.events.newest(func(e *event) bool {
		return !e.created.Before(req.now.Add(-eventWindow)) && inSpan(p.get("created"), e.object.Created) &&
			isOneOf(types, e.object.Type) && arrived(p.str("delivery_success"), e)
	})
	out, err := page(p, "/v1/events", all, func(e *event) string { return e.object.ID }, "event")
	if err != nil {
		return nil, err
	}
	for i, v := range out.Data {
		if e, ok := v.(*event); ok {
			o := e.current()
			out.Data[i] = &o
		}
	}
	return out, nil
}

// isOneOf understands a group with a star, as in checkout.session.*.
func isOneOf(types []string, typ string) bool {
	if len(types) == 0 {
		return true
	}
	return slices.ContainsFunc(types, func(pattern string) bool {
		if !strings.Contains(pattern, "*") {
			return pattern == typ
		}
		ok, err := path.Match(pattern, typ)
		return ok && err == nil
	})
}

func inSpan(n *node, v int64) bool {
	if n == nil {
		return true
	}
	if n.isText {
		at, err := strconv.ParseInt(n.text, 10, 64)
		return err == nil && v == at
	}
	return (n.get("gt") == nil || v > n.num("gt")) && (n.get("gte") == nil || v >= n.num("gte")) &&
		(n.get("lt") == nil || v < n.num("lt")) && (n.get("lte") == nil || v <= n.num("lte"))
}

func arrived(want string, e *event) bool {
	return want == "" || want == strconv.FormatBool(len(e.pending) == 0)
}

// pageParams are what every list takes, with the filters of one.
func pageParams(filters map[string]spec) spec {
	members := map[string]spec{
		"limit": {kind: integer, min: 1, max: 100}, "starting_after": {}, "ending_before": {}, "expand": expandParam(),
	}
	maps.Copy(members, filters)
	return fields(members)
}

// page cuts one page out of all, which is in list order: ten unless limit says otherwise, those right after the cursor or
// those right before it (https://docs.stripe.com/api/pagination).
func page[T any](p *node, url string, all []T, id func(T) string, object string) (*list, *apiError) {
	limit := 10
	if p.get("limit") != nil {
		limit = int(p.num("limit"))
	}
	find := func(param string) (int, *apiError) {
		cursor := p.str(param)
		if i := slices.IndexFunc(all, func(v T) bool { return id(v) == cursor }); i >= 0 {
			return i, nil
		}
		return 0, refused("resource_missing", param, "No such %s: '%s'", object, cursor)
	}
	from, to, more := 0, min(limit, len(all)), len(all) > limit
	switch {
	case p.get("starting_after") != nil && p.get("ending_before") != nil:
		return nil, invalid("", "starting_after", "Give starting_after or ending_before, not both.")
	case p.get("starting_after") != nil:
		i, err := find("starting_after")
		if err != nil {
			return nil, err
		}
		from, to = i+1, min(i+1+limit, len(all))
		more = to < len(all)
	case p.get("ending_before") != nil:
		i, err := find("ending_before")
		if err != nil {
			return nil, err
		}
		from, to = max(0, i-limit), i
		more = from > 0
	}
	out := &list{Object: "list", Data: []any{}, HasMore: more, URL: url}
	for _, v := range all[from:to] {
		out.Data = append(out.Data, v)
	}
	return out, nil
}
