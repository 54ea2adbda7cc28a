package orders

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"

	"paidonce/internal/money"
)

// MaxSKU is the longest sku, in characters. It becomes part of every license key, and those
// are indexed.
const MaxSKU = 200

// Product is a row of products: what is for sale, and for how much.
type Product struct {
	SKU       string         `gorm:"primaryKey" json:"sku"`
	Name      string         `json:"name"`
	UnitMinor int64          `json:"unit_minor"` // minor units: 1999 is 19.99 usd, 100 is 100 jpy
	Currency  money.Currency `json:"currency"`
	Active    bool           `json:"-"`
	UpdatedAt time.Time      `json:"-"`
}

// Unit is the price of one.
func (p Product) Unit() money.Amount { return money.Amount{Minor: p.UnitMinor, Currency: p.Currency} }

// ImportProducts inserts products, or updates those whose sku exists, all or none. Orders
// keep the prices they were made with.
func (s *Store) ImportProducts(ctx context.Context, products []Product) error {
	const upsert = `
INSERT INTO products (sku, name, unit_minor, currency, active, updated_at) VALUES (?, ?, ?, ?, true, ?)
ON CONFLICT (sku) DO UPDATE
SET name = excluded.name, unit_minor = excluded.unit_minor, currency = excluded.currency, active = true, updated_at = excluded.updated_at`
	return s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, p := range products {
			if err := tx.Exec(upsert, p.SKU, p.Name, p.UnitMinor, p.Currency, s.Now()).Error; err != nil {
				return fmt.Errorf("importing product %s: %w", p.SKU, err)
			}
		}
		return nil
	})
}

// ReadProducts reads a JSON list of {"sku","name","unit_minor","currency"}, or CSV with
// those columns. All faults are reported at once, each with the entry and the field.
func ReadProducts(r io.Reader) ([]Product, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading products: %w", err)
	}
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")) // spreadsheets write a byte order mark
	var entries []entry
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && (trimmed[0] == '[' || trimmed[0] == '{') {
		entries, err = jsonEntries(trimmed)
	} else {
		entries, err = csvEntries(raw)
	}
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("no products: expected a JSON list, or CSV with a header line")
	}
	return checkProducts(entries)
}

// entry is a product as it was written, with its place.
type entry struct {
	place                     string
	sku, name, unit, currency string
	torn                      string // why nothing can be said of its fields; "" if it is whole
}

func jsonEntries(raw []byte) ([]entry, error) {
	var list []struct {
		SKU       string      `json:"sku"`
		Name      string      `json:"name"`
		UnitMinor json.Number `json:"unit_minor"`
		Currency  string      `json:"currency"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return nil, fmt.Errorf("products are not a JSON list of {sku, name, unit_minor, currency}: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("products are one JSON list, and something follows it")
	}
	entries := make([]entry, len(list))
	for i, p := range list {
		entries[i] = entry{
			place: fmt.Sprintf("product %d", i+1),
			sku:   p.SKU, name: p.Name, unit: p.UnitMinor.String(), currency: p.Currency,
		}
	}
	return entries, nil
}

func csvEntries(raw []byte) ([]entry, error) {
	reader := csv.NewReader(bytes.NewReader(raw))
	reader.TrimLeadingSpace = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("products are not CSV: %w", err)
	}
	column := func(name string) int {
		return slices.IndexFunc(header, func(h string) bool { return strings.EqualFold(strings.TrimSpace(h), name) })
	}
	sku, name, unit, currency := column("sku"), column("name"), column("unit_minor"), column("currency")
	if min(sku, name, unit, currency) < 0 {
		return nil, fmt.Errorf("the CSV header must name sku, name, unit_minor and currency; it is %q", strings.Join(header, ","))
	}
	var entries []entry
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil && !errors.Is(err, csv.ErrFieldCount) {
			return nil, fmt.Errorf("products are not CSV: %w", err)
		}
		line, _ := reader.FieldPos(0)
		e := entry{place: fmt.Sprintf("line %d", line)}
		if err != nil {
			e.torn = fmt.Sprintf("has %d columns, the header has %d", len(row), len(header))
		} else {
			e.sku, e.name, e.unit, e.currency = row[sku], row[name], row[unit], row[currency]
		}
		entries = append(entries, e)
	}
}

func checkProducts(entries []entry) ([]Product, error) {
	var products []Product
	var faults []error
	seen := map[string]string{}
	for _, e := range entries {
		if e.torn != "" {
			faults = append(faults, fmt.Errorf("%s: %s", e.place, e.torn))
			continue
		}
		fault := func(field, format string, args ...any) {
			faults = append(faults, fmt.Errorf("%s: %s: %s", e.place, field, fmt.Sprintf(format, args...)))
		}
		sku := strings.TrimSpace(e.sku)
		if sku == "" {
			fault("sku", "is missing")
		} else if !isPrintable(sku) {
			fault("sku", "holds characters that cannot be printed, or is not UTF-8")
		} else if utf8.RuneCountInString(sku) > MaxSKU {
			fault("sku", "is longer than %d characters", MaxSKU)
		} else if before, twice := seen[sku]; twice {
			fault("sku", "%q was given before, as %s", sku, before)
		}
		seen[sku] = e.place
		if strings.TrimSpace(e.name) == "" {
			fault("name", "is missing")
		} else if !isPrintable(strings.TrimSpace(e.name)) {
			fault("name", "holds characters that cannot be printed, or is not UTF-8")
		}
		unit, err := strconv.ParseInt(strings.TrimSpace(e.unit), 10, 64)
		if err != nil || unit < 0 || unit > MaxTotal {
			fault("unit_minor", "%q is not a whole number of minor units from 0 to %d (19.99 usd is 1999)", e.unit, MaxTotal)
		}
		currency, err := money.ParseCurrency(strings.TrimSpace(e.currency))
		if err != nil {
			fault("currency", "%v", err)
		} else if _, err := money.ToStripe(money.Amount{Currency: currency}); err != nil {
			fault("currency", "%s is not payable at Stripe, or not in a unit that it states", currency.Code())
		} else if price := (money.Amount{Minor: unit, Currency: currency}); unit <= MaxTotal && !sellable(price) {
			fault("unit_minor", "%s is no price that Stripe takes", price)
		}
		products = append(products, Product{SKU: sku, Name: strings.TrimSpace(e.name), UnitMinor: unit, Currency: currency})
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return products, nil
}
