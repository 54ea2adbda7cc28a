package licenses

import (
	"time"

	"github.com/google/uuid"
)

// Status says whether a license may be used. It follows the order's state, never the other
// way round.
type Status string

// The statuses. Each may follow each: a dispute suspends and a won one restores, a refund
// revokes and a refund that fails later restores.
const (
	StatusActive    Status = "active"
	StatusSuspended Status = "suspended" // the order is disputed or in review
	StatusRevoked   Status = "revoked"   // the money went back
)

func (s Status) known() bool {
	switch s {
	case StatusActive, StatusSuspended, StatusRevoked:
		return true
	default:
		return false
	}
}

// License is one row of the licenses table.
type License struct {
	ID          uuid.UUID `gorm:"column:id;primaryKey" json:"id"`
	OrderID     uuid.UUID `gorm:"column:order_id" json:"order_id"`
	OrderLineID uuid.UUID `gorm:"column:order_line_id" json:"order_line_id"`
	Ordinal     int       `gorm:"column:ordinal" json:"ordinal"`
	SKU         string    `gorm:"column:sku" json:"sku"`
	Key         string    `gorm:"column:key" json:"key"`
	KeyID       KeyID     `gorm:"column:key_id" json:"key_id"`
	Status      Status    `gorm:"column:status" json:"status"`
	IssuedAt    time.Time `gorm:"column:issued_at" json:"issued_at"`
	UpdatedAt   time.Time `gorm:"column:updated_at" json:"updated_at"`
}

// TableName is the table, spelled out for gorm.
func (License) TableName() string { return "licenses" }

// Order is what [Store.Issue] needs to know of an order.
type Order struct {
	ID    uuid.UUID
	Lines []Line
}

// Line is one order line: Quantity licenses of one SKU.
type Line struct {
	ID       uuid.UUID
	SKU      string
	Quantity int
}
