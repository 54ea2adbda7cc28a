package stripesim

import (
	"strconv"
	"strings"
	"time"
)

// fillItems makes line items and the totals, of prices there are or of price_data. All lines are in one currency.
func (s *Sim) fillItems(v *session, items []*node, now time.Time) *apiError {
	for i, n := range items {
		at := within("line_items", strconv.Itoa(i))
		of, err := s.priceOf(n, at, now)
		if err != nil {
			return err
		}
		quantity := n.num("quantity")
		if v.Currency != "" && v.Currency != of.Currency {
			return invalid("", within(within(at, "price_data"), "currency"), "All line items must be in one currency: %s.", v.Currency)
		}
		v.Currency = of.Currency
		if of.UnitAmount > (maxAmount-v.AmountTotal)/quantity {
			return invalid("amount_too_large", "line_items", "The total must be no more than %d.", int64(maxAmount))
		}
		v.AmountSubtotal += of.UnitAmount * quantity
		v.AmountTotal = v.AmountSubtotal
		description := n.str("price_data", "product_data", "name")
		if pr := s.products.get(of.Product.id); pr != nil {
			description = pr.Name
		}
		v.items = append(v.items, lineItem{
			ID: s.cfg.NewID("li_"), Object: "item", AmountSubtotal: of.UnitAmount * quantity, AmountTotal: of.UnitAmount * quantity,
			Currency: of.Currency, Description: description, Quantity: quantity, Price: of,
		})
	}
	return nil
}

// priceOf is the price that a line names, or one made of its price_data.
func (s *Sim) priceOf(n *node, at string, now time.Time) (*price, *apiError) {
	data := within(at, "price_data")
	switch {
	case n.get("quantity") == nil && (n.get("price") != nil || n.get("price_data", "product_data") != nil):
		return nil, missingParam(within(at, "quantity"))
	case n.get("price") != nil:
		of := s.prices.get(n.str("price"))
		if of == nil {
			return nil, refused("resource_missing", within(at, "price"), "No such price: '%s'", n.str("price"))
		}
		if !of.Active {
			return nil, refused("", within(at, "price"), "The price '%s' is inactive.", of.ID)
		}
		return of, nil
	case n.get("price_data") == nil:
		return nil, missingParam(data)
	case n.get("price_data", "product") != nil && s.products.get(n.str("price_data", "product")) == nil:
		return nil, refused("resource_missing", within(data, "product"), "No such product: '%s'", n.str("price_data", "product"))
	case n.get("price_data", "product") == nil && n.get("price_data", "product_data") == nil:
		return nil, missingParam(within(data, "product_data"))
	case n.get("quantity") == nil:
		return nil, missingParam(within(at, "quantity"))
	}
	currency := strings.ToLower(n.str("price_data", "currency"))
	if !isCurrency(currency) {
		return nil, invalid("", within(data, "currency"), "Invalid currency: %s", currency)
	}
	of := s.newPrice(now, currency, n.num("price_data", "unit_amount"), n.str("price_data", "tax_behavior"))
	of.Product.id = n.str("price_data", "product")
	if of.Product.id == "" {
		// Simplified: the product of inline data is an id alone; Stripe makes an archived product.
		of.Product.id = s.cfg.NewID("prod_")
	}
	return of, nil
}

func (s *Sim) newPrice(now time.Time, currency string, unit int64, behavior string) *price {
	if behavior == "" {
		behavior = "unspecified"
	}
	return &price{
		ID: s.cfg.NewID("price_"), Object: "price", BillingScheme: "per_unit", Created: now.Unix(), Currency: currency,
		Livemode: s.cfg.Livemode, Metadata: map[string]string{}, TaxBehavior: behavior, Type: "one_time", UnitAmount: unit,
		UnitAmountDecimal: strconv.FormatInt(unit, 10),
	}
}
