package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paidonce/fulfillment"
	"paidonce/orders"
)

// corrected is what a new address came to, as it is printed.
type corrected struct {
	OrderID uuid.UUID                 `json:"order_id"`
	Number  int64                     `json:"number"`
	Email   string                    `json:"email"`
	By      string                    `json:"by,omitempty"`
	Why     string                    `json:"why,omitempty"`
	Repeat  bool                      `json:"repeat"` // the order had this address before
	Mails   []fulfillment.Readdressed `json:"mails"`
}

func newOrdersEmail(e *surroundings) *cobra.Command {
	var d deciding
	cmd := &cobra.Command{
		Use:   "email ORDER ADDRESS",
		Short: "Correct the address that an order's mails go to, and send those that are stuck",
		Long: `email gives an order another address. Mails that could not go out are written anew for it, and sent
once. A mail that went out, or may have, is not sent again; the command says so. ORDER is an id or a
number.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			id, err := a.orders.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			decided, mails, err := a.service.CorrectEmail(cmd.Context(), id, args[1], d.person)
			if err != nil {
				return err
			}
			c := newCorrected(decided, mails)
			if d.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
			}
			c.print(cmd.OutOrStdout())
			return nil
		},
	}
	d.flags(cmd)
	return cmd
}

func newCorrected(d orders.Decided, mails []fulfillment.Readdressed) corrected {
	c := corrected{
		OrderID: d.Order.ID, Number: d.Order.Number, Email: d.Order.Email, By: d.Ruling.DecidedBy, Why: d.Ruling.Reason, Repeat: d.Repeat, Mails: mails,
	}
	if c.Mails == nil {
		c.Mails = []fulfillment.Readdressed{}
	}
	return c
}

func (c corrected) print(w io.Writer) {
	how := "go to %s now.\n"
	if c.Repeat {
		how = "went to %s already.\n"
	}
	_, _ = fmt.Fprintf(w, "Order %d: its mails "+how, c.Number, c.Email)
	for _, m := range c.Mails {
		name := string(m.Kind)
		if m.SubjectID != c.OrderID.String() {
			name += " " + m.SubjectID
		}
		_, _ = fmt.Fprintf(w, "  %s: %s\n", name, becomes(m))
	}
}

// becomes says what a new address means for one mail.
func becomes(m fulfillment.Readdressed) string {
	if m.Sending {
		return "will be sent there"
	}
	switch m.State {
	case fulfillment.ReceiptSent:
		return "was sent to " + m.To + ", and is not sent again"
	case fulfillment.ReceiptUnknown, fulfillment.ReceiptSending:
		return "may have gone to " + m.To + ", and is not sent to another address"
	case fulfillment.ReceiptIntended:
		return "is about to be sent there"
	case fulfillment.ReceiptParked:
	}
	return "cannot go there, and stays parked"
}
