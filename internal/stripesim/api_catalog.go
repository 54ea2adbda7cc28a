package stripesim

import "strings"

// Products (https://docs.stripe.com/api/products) and prices (https://docs.stripe.com/api/prices).

func productParams() spec {
	members := map[string]spec{
		"name": {required: true}, "active": {kind: boolean}, "description": {length: 40000}, "id": {}, "images": arrayOf(spec{}),
		"metadata": {kind: metadata}, "statement_descriptor": {length: 22}, "tax_code": {}, "unit_label": {}, "url": {},
		"type": {among: []string{"good", "service"}}, "expand": expandParam(),
	}
	for _, name := range []string{"default_price", "default_price_data", "marketing_features", "package_dimensions", "shippable"} {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func (s *Sim) createProduct(req *request) (any, *apiError) {
	p := req.params
	v := &product{
		ID: p.str("id"), Object: "product", Active: p.str("active") != "false", Attributes: []none{}, Created: req.now.Unix(),
		Description: optional(p.str("description")), Images: p.strs("images"), Livemode: s.cfg.Livemode,
		MarketingFeatures: []none{}, Name: p.str("name"), StatementDescriptor: optional(p.str("statement_descriptor")),
		TaxCode: optional(p.str("tax_code")), Type: "service", UnitLabel: optional(p.str("unit_label")),
		Updated: req.now.Unix(), URL: optional(p.str("url")),
	}
	if v.ID == "" {
		v.ID = s.cfg.NewID("prod_")
	} else if s.products.get(v.ID) != nil {
		return nil, refused("resource_already_exists", "id", "Product already exists.")
	}
	if v.Images == nil {
		v.Images = []string{}
	}
	var err *apiError
	if v.Metadata, err = newMetadata(p); err != nil {
		return nil, err
	}
	s.products.add(v.ID, v)
	s.act(req.cause(), nil).emit("product.created", v)
	return v, nil
}

func newMetadata(p *node) (map[string]string, *apiError) {
	merged, ok := p.get("metadata").mergeInto(nil)
	if !ok {
		return nil, invalid("", "metadata", "Metadata can have at most 50 keys.")
	}
	return merged, nil
}

func productFilters() map[string]spec {
	f := createdFilter()
	f["active"], f["ids"] = spec{kind: boolean}, arrayOf(spec{})
	f["shippable"], f["type"], f["url"] = spec{kind: unsupported}, spec{kind: unsupported}, spec{}
	return f
}

func (s *Sim) listProducts(req *request) (any, *apiError) {
	p := req.params
	all := s.products.newest(func(v *product) bool {
		return inSpan(p.get("created"), v.Created) && p.same("active", boolText(v.Active)) && p.same("url", string(v.URL)) &&
			isOneOf(p.strs("ids"), v.ID)
	})
	return page(p, "/v1/products", all, func(v *product) string { return v.ID }, "product")
}

func boolText(v bool) string {
	if v {
		return "true"
	}
	return "false"
}

func priceParams() spec {
	members := map[string]spec{
		"currency": {required: true}, "unit_amount": {kind: integer, max: maxAmount}, "product": {}, "active": {kind: boolean},
		"lookup_key": {length: 200}, "metadata": {kind: metadata}, "nickname": {},
		"product_data": fields(map[string]spec{
			"name": {required: true}, "active": {kind: boolean}, "id": {}, "metadata": {kind: metadata},
			"statement_descriptor": {kind: unsupported}, "tax_code": {kind: unsupported}, "unit_label": {kind: unsupported},
		}),
		"tax_behavior": {among: []string{"exclusive", "inclusive", "unspecified"}}, "expand": expandParam(),
		"billing_scheme": {among: []string{"per_unit"}},
	}
	for _, name := range []string{
		"currency_options", "custom_unit_amount", "recurring", "tiers", "tiers_mode", "transfer_lookup_key",
		"transform_quantity", "unit_amount_decimal",
	} {
		members[name] = spec{kind: unsupported}
	}
	return fields(members)
}

func (s *Sim) createPrice(req *request) (any, *apiError) {
	p := req.params
	currency := strings.ToLower(p.str("currency"))
	switch {
	case !isCurrency(currency):
		return nil, invalid("", "currency", "Invalid currency: %s", currency)
	case p.get("unit_amount") == nil:
		return nil, missingParam("unit_amount")
	case p.get("product") == nil && p.get("product_data") == nil:
		return nil, missingParam("product")
	case p.get("product") != nil && s.products.get(p.str("product")) == nil:
		return nil, refused("resource_missing", "product", "No such product: '%s'", p.str("product"))
	}
	data, err := newMetadata(p)
	if err != nil {
		return nil, err
	}
	v := s.newPrice(req.now, currency, p.num("unit_amount"), p.str("tax_behavior"))
	v.Active, v.LookupKey, v.Nickname = p.str("active") != "false", optional(p.str("lookup_key")), optional(p.str("nickname"))
	v.Metadata, v.Product.id = data, p.str("product")
	if v.Product.id == "" {
		made, err := s.createProduct(&request{
			id: req.id, key: req.key, now: req.now, params: p.get("product_data"), method: req.method,
		})
		if err != nil {
			return nil, err
		}
		if pr, ok := made.(*product); ok {
			v.Product.id = pr.ID
		}
	}
	s.prices.add(v.ID, v)
	s.act(req.cause(), nil).emit("price.created", v)
	return v, nil
}

func priceFilters() map[string]spec {
	f := filters("currency", "product")
	f["active"], f["type"] = spec{kind: boolean}, spec{among: []string{"one_time", "recurring"}}
	f["lookup_keys"], f["recurring"] = arrayOf(spec{}), spec{kind: unsupported}
	return f
}

func (s *Sim) listPrices(req *request) (any, *apiError) {
	p := req.params
	all := s.prices.newest(func(v *price) bool {
		return inSpan(p.get("created"), v.Created) && p.same("currency", v.Currency) && p.same("product", v.Product.id) &&
			p.same("active", boolText(v.Active)) && p.same("type", v.Type) && isOneOf(p.strs("lookup_keys"), string(v.LookupKey))
	})
	return page(p, "/v1/prices", all, func(v *price) string { return v.ID }, "price")
}
