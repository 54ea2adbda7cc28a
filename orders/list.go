package orders

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"
)

// ListFilter chooses orders. Its zero value chooses all.
type ListFilter struct {
	IDs    []uuid.UUID // any of these; none: whatever its id
	State  State
	Email  string // whole, in whatever case
	Before int64  // of a smaller number than this, for the next page
	Limit  int    // zero: no limit
}

// List returns orders, the newest first, and how many the filter chooses on all its pages.
func (s *Store) List(ctx context.Context, f ListFilter) (list []Order, total int64, err error) {
	chosen := s.DB.WithContext(ctx).Model(&Order{})
	if len(f.IDs) > 0 {
		chosen = chosen.Where("id IN ?", f.IDs)
	}
	if f.State != "" {
		chosen = chosen.Where("state = ?", f.State)
	}
	if f.Email != "" {
		chosen = chosen.Where("lower(email) = lower(?)", f.Email)
	}
	chosen = chosen.Session(&gorm.Session{}) // counted and listed by the same conditions
	if err := chosen.Count(&total).Error; err != nil {
		return nil, 0, fmt.Errorf("counting orders: %w", err)
	}
	page := chosen.Order("number DESC")
	if f.Before > 0 {
		page = page.Where("number < ?", f.Before)
	}
	if f.Limit > 0 {
		page = page.Limit(f.Limit)
	}
	list = []Order{}
	if err := page.Find(&list).Error; err != nil {
		return nil, 0, fmt.Errorf("listing orders: %w", err)
	}
	return list, total, nil
}

// Find turns what a person calls an order, its id or its number, into its id.
func (s *Store) Find(ctx context.Context, name string) (uuid.UUID, error) {
	var ids []uuid.UUID
	find := s.DB.WithContext(ctx).Model(&Order{})
	if number, err := strconv.ParseInt(strings.TrimPrefix(name, "#"), 10, 64); err == nil {
		find = find.Where("number = ?", number)
	} else if id, err := uuid.Parse(name); err == nil {
		find = find.Where("id = ?", id)
	} else {
		return uuid.Nil, &InputError{Field: "order", Detail: "is an id or a number, and " + strconv.Quote(name) + " is neither"}
	}
	if err := find.Pluck("id", &ids).Error; err != nil {
		return uuid.Nil, fmt.Errorf("looking for order %s: %w", name, err)
	}
	if len(ids) == 0 {
		return uuid.Nil, fmt.Errorf("order %s: %w", name, ErrNotFound)
	}
	return ids[0], nil
}
