package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"
)

// ErrNoProduct is returned for a sku that is not there.
var ErrNoProduct = errors.New("no such product")

// Products lists what there is, by sku: also what is not for sale any more.
func (s *Store) Products(ctx context.Context) ([]Product, error) {
	products := []Product{}
	if err := s.DB.WithContext(ctx).Order("sku").Find(&products).Error; err != nil {
		return nil, fmt.Errorf("listing products: %w", err)
	}
	return products, nil
}

// SetActive puts products up for sale, or takes them off; all or none. An order that was made
// keeps what it is for. Its error names every sku that is not there.
func (s *Store) SetActive(ctx context.Context, active bool, skus ...string) error {
	return s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var there []string
		set := tx.Raw(`UPDATE products SET active = ?, updated_at = ? WHERE sku IN ? RETURNING sku`, active, s.Now(), skus).Scan(&there)
		if set.Error != nil {
			return fmt.Errorf("changing products: %w", set.Error)
		}
		var faults []error
		for _, sku := range skus {
			if !slices.Contains(there, sku) {
				faults = append(faults, fmt.Errorf("%s: %w", sku, ErrNoProduct))
			}
		}
		return errors.Join(faults...)
	})
}
