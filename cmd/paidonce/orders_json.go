package main

import (
	"time"

	"github.com/google/uuid"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
	"paidonce/licenses"
	"paidonce/orders"
)

// The parts of an order as "orders show --json" prints them. Amounts are in minor units, times
// in UTC, and lists are never null.
type (
	lineJSON struct {
		SKU       string `json:"sku"`
		Name      string `json:"name"`
		Quantity  int    `json:"quantity"`
		UnitMinor int64  `json:"unit_minor"`
	}
	stepJSON struct {
		At    time.Time `json:"at"`
		Event string    `json:"event"`
		From  string    `json:"from"`
		To    string    `json:"to"`
		Cause string    `json:"cause"`
	}
	rulingJSON struct {
		ID          uuid.UUID  `json:"id"`
		Action      string     `json:"action"`
		PaymentID   *uuid.UUID `json:"payment_id"`
		AmountMinor *int64     `json:"amount_minor"`
		Currency    *string    `json:"currency"`
		By          string     `json:"by"`
		Why         string     `json:"why"`
		At          time.Time  `json:"at"`
	}
	paymentJSON struct {
		ID               uuid.UUID `json:"id"`
		Provider         string    `json:"provider"`
		Livemode         bool      `json:"livemode"`
		Account          string    `json:"account"`
		Resources        []string  `json:"resources"`
		Status           string    `json:"status"`
		Currency         string    `json:"currency"`
		ExpectedMinor    int64     `json:"expected_minor"`
		ReceivedMinor    *int64    `json:"received_minor"`
		ReceivedCurrency *string   `json:"received_currency"`
		RefundedMinor    int64     `json:"refunded_minor"`
		AcceptedBy       *string   `json:"accepted_by"`
		Surplus          bool      `json:"surplus"`
	}
	returnJSON struct {
		ID          string    `json:"id"`
		PaymentID   uuid.UUID `json:"payment_id"`
		AmountMinor int64     `json:"amount_minor"`
		Currency    string    `json:"currency"`
		Status      string    `json:"status"`
		Reason      string    `json:"reason,omitempty"`
		CreatedAt   time.Time `json:"created_at"`
	}
	licenseJSON struct {
		ID       uuid.UUID `json:"id"`
		SKU      string    `json:"sku"`
		Status   string    `json:"status"`
		IssuedAt time.Time `json:"issued_at"`
	}
	mailJSON struct {
		Kind      string  `json:"kind"`
		SubjectID string  `json:"subject_id"`
		State     string  `json:"state"`
		LastError *string `json:"last_error"`
	}
	callJSON struct {
		Key         string     `json:"idempotency_key"`
		Operation   string     `json:"operation"`
		State       string     `json:"state"`
		Attempts    int        `json:"attempts"`
		FirstSentAt *time.Time `json:"first_sent_at"`
		LastSentAt  *time.Time `json:"last_sent_at"`
		LastError   *string    `json:"last_error"`
	}
)

// each is the list of what make makes of every element.
func each[A, B any](list []A, make func(A) B) []B {
	made := []B{}
	for _, one := range list {
		made = append(made, make(one))
	}
	return made
}

func linesJSON(d fulfillment.Dossier) []lineJSON {
	return each(d.Lines, func(l orders.Line) lineJSON { return lineJSON{l.SKU, l.Name, l.Quantity, l.UnitMinor} })
}

func timelineJSON(d fulfillment.Dossier) []stepJSON {
	return each(d.Transitions, func(t orders.Transition) stepJSON {
		return stepJSON{t.At, string(t.Event), string(t.FromState), string(t.ToState), t.CauseProvider + " " + t.CauseEventID}
	})
}

func rulingsJSON(d fulfillment.Dossier) []rulingJSON {
	return each(d.Rulings, func(r orders.Ruling) rulingJSON {
		return rulingJSON{r.ID, string(r.Action), r.PaymentID, r.AmountMinor, r.Currency, r.DecidedBy, r.Reason, r.DecidedAt}
	})
}

func paymentsJSON(d fulfillment.Dossier) []paymentJSON {
	surplus := map[uuid.UUID]bool{}
	for _, p := range d.Surplus() {
		surplus[p.ID] = true
	}
	return each(d.Payments, func(p orders.Payment) paymentJSON {
		return paymentJSON{
			ID: p.ID, Provider: p.Provider, Livemode: p.Livemode, Account: p.Account, Resources: append([]string{}, d.Resources[p.ID]...),
			Status: string(p.Status), Currency: string(p.Currency), ExpectedMinor: p.ExpectedMinor, ReceivedMinor: p.ReceivedMinor,
			ReceivedCurrency: p.ReceivedCurrency, RefundedMinor: p.RefundedMinor, AcceptedBy: p.AcceptedBy, Surplus: surplus[p.ID],
		}
	})
}

func refundsJSON(d fulfillment.Dossier) []returnJSON {
	return each(d.Refunds, func(r orders.PaymentRefund) returnJSON {
		return returnJSON{r.RefundID, r.PaymentID, r.AmountMinor, string(r.Currency), r.Status, "", r.CreatedAt}
	})
}

func disputesJSON(d fulfillment.Dossier) []returnJSON {
	return each(d.Disputes, func(r orders.PaymentDispute) returnJSON {
		return returnJSON{r.DisputeID, r.PaymentID, r.AmountMinor, string(r.Currency), r.Status, r.Reason, r.CreatedAt}
	})
}

func licensesJSON(d fulfillment.Dossier) []licenseJSON {
	return each(d.Licenses, func(l licenses.License) licenseJSON {
		return licenseJSON{l.ID, l.SKU, string(l.Status), l.IssuedAt}
	})
}

func mailsJSON(d fulfillment.Dossier) []mailJSON {
	return each(d.Mails, func(m fulfillment.ReceiptStatus) mailJSON {
		return mailJSON{string(m.Kind), m.SubjectID, string(m.State), m.LastError}
	})
}

func callsJSON(d fulfillment.Dossier) []callJSON {
	return each(d.Calls, func(c provider.Call) callJSON {
		return callJSON{c.IdempotencyKey, string(c.Operation), string(c.State), c.Attempts, c.FirstSentAt, c.LastSentAt, c.LastError}
	})
}
