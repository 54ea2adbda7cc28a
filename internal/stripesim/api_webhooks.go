package stripesim

import "maps"

// hookParams is what endpoints are made with and changed by (https://docs.stripe.com/api/webhook_endpoints).
func hookParams(create bool) spec {
	members := map[string]spec{
		"url": {required: create}, "enabled_events": {kind: array, of: &spec{}, required: create},
		"description": {clear: true}, "metadata": {kind: metadata}, "expand": expandParam(),
	}
	if create {
		members["api_version"] = spec{among: EventAPIVersions()}
		members["connect"], members["disabled"] = spec{kind: unsupported}, spec{kind: unsupported}
	} else {
		members["disabled"] = spec{kind: boolean}
	}
	return fields(members)
}

func (s *Sim) createHook(req *request) (any, *apiError) {
	p := req.params
	h := &webhookEndpoint{
		ID: s.cfg.NewID("we_"), Object: "webhook_endpoint", APIVersion: optional(p.str("api_version")),
		Created: req.now.Unix(), Livemode: s.cfg.Livemode, Metadata: map[string]string{}, Status: "enabled",
		secrets: []rolledSecret{{Value: s.newSecret()}},
	}
	if err := h.change(p); err != nil {
		return nil, err
	}
	s.hooks.add(h.ID, h)
	out := *h
	out.Secret = h.secrets[0].Value
	return &out, nil
}

func (h *webhookEndpoint) change(p *node) *apiError {
	if p.get("url") != nil {
		if !isURL(p.str("url")) {
			return invalid("url_invalid", "url", "Not a valid URL: %s", p.str("url"))
		}
		h.URL = p.str("url")
	}
	if p.get("enabled_events") != nil {
		h.EnabledEvents = p.strs("enabled_events")
	}
	if p.get("description") != nil {
		h.Description = optional(p.str("description"))
	}
	switch p.str("disabled") {
	case "true":
		h.Status = "disabled"
	case "false":
		h.Status = "enabled"
	}
	merged, ok := p.get("metadata").mergeInto(h.Metadata)
	if !ok {
		return invalid("", "metadata", "Metadata can have at most 50 keys.")
	}
	h.Metadata = merged
	return nil
}

func (s *Sim) updateHook(req *request) (any, *apiError) {
	h := s.hooks.get(req.target)
	if h == nil {
		return nil, noSuch("webhook endpoint", req.target, "id")
	}
	changed := *h
	changed.Metadata = maps.Clone(h.Metadata)
	if err := changed.change(req.params); err != nil {
		return nil, err
	}
	*h = changed
	return h, nil
}

func (s *Sim) deleteHook(req *request) (any, *apiError) {
	if s.hooks.get(req.target) == nil {
		return nil, noSuch("webhook endpoint", req.target, "id")
	}
	s.hooks.remove(req.target)
	return &deleted{ID: req.target, Object: "webhook_endpoint", Deleted: true}, nil
}
