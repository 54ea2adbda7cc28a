package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"paidonce/fulfillment"
	"paidonce/orders"
)

func newMails(e *surroundings) *cobra.Command {
	cmd := &cobra.Command{Use: "mails", Short: "What was mailed, and what a person decides about a mail", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(
		newMailsList(e),
		newMailsDecide(e, "resend", "Send a mail again that is unknown or parked", `resend sends a mail again of which nobody knows whether it went out, or that could not go out as things
were: the same mail, under the same key. If the first did go out, the buyer gets a second copy. KIND is
receipt, refund, refund_failed, dispute, dispute_won or dispute_lost; SUBJECT is needed if the order
has several of the kind.`, (*fulfillment.Service).ResendMail, "will be sent again"),
		newMailsDecide(e, "mark-sent", "Take a mail for sent that is unknown or parked", `mark-sent takes a mail for sent, because you know that it arrived, or have told the buyer otherwise.
Nothing is sent.`, (*fulfillment.Service).MarkMailSent, "is taken for sent"),
	)
	return cmd
}

// mailStates are the states that --state takes.
func mailStates() []string {
	var names []string
	for _, state := range []fulfillment.ReceiptState{
		fulfillment.ReceiptIntended, fulfillment.ReceiptSending, fulfillment.ReceiptSent, fulfillment.ReceiptUnknown, fulfillment.ReceiptParked,
	} {
		names = append(names, string(state))
	}
	return names
}

func newMailsList(e *surroundings) *cobra.Command {
	var states []string
	var order string
	var asJSON bool
	filter := fulfillment.MailFilter{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List mails, what changed last first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, state := range states {
				if !slices.Contains(mailStates(), state) {
					return fmt.Errorf("--state: there is no state %q; there are %s", state, strings.Join(mailStates(), ", "))
				}
				filter.States = append(filter.States, fulfillment.ReceiptState(state))
			}
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			if order != "" {
				if filter.OrderID, err = a.orders.Find(cmd.Context(), order); err != nil {
					return err
				}
			}
			mails, err := a.service.Mails(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(mails)
			}
			return printMails(cmd.OutOrStdout(), mails)
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only mails in one of these states: "+strings.Join(mailStates(), ", "))
	cmd.Flags().StringVar(&order, "order", "", "only mails of this order, by id or number")
	cmd.Flags().IntVar(&filter.Limit, "limit", 100, "at most so many; 0 is all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printMails(w io.Writer, mails []fulfillment.MailEntry) error {
	if len(mails) == 0 {
		_, err := fmt.Fprintln(w, "No mails.")
		return err
	}
	t := newTable(w, "CHANGED (UTC)", "ORDER", "KIND", "SUBJECT", "STATE", "TO", "WHY")
	for _, m := range mails {
		subject, why := m.SubjectID, ""
		if subject == m.OrderID.String() {
			subject = "-"
		}
		if m.LastError != nil {
			why = *m.LastError
		}
		if m.ResendAt != nil {
			why = "sent once more at " + m.ResendAt.UTC().Format("15:04:05 MST") + ": " + why
		}
		t.row(at(m.UpdatedAt), strconv.FormatInt(m.Number, 10), string(m.Kind), subject, string(m.State), m.To, why)
	}
	t.end()
	return nil
}

// mailDecided is what a decision about a mail came to, as it is printed.
type mailDecided struct {
	OrderID   uuid.UUID            `json:"order_id"`
	Number    int64                `json:"number"`
	Kind      fulfillment.MailKind `json:"kind"`
	SubjectID string               `json:"subject_id"`
	By        string               `json:"by"`
	Why       string               `json:"why"`
}

func newMailsDecide(
	e *surroundings, name, short, long string,
	do func(*fulfillment.Service, context.Context, fulfillment.SendReceiptArgs, orders.Person) (orders.Decided, error), done string,
) *cobra.Command {
	var d deciding
	cmd := &cobra.Command{
		Use: name + " ORDER KIND [SUBJECT]", Short: short, Long: long, Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := deskApp(cmd.Context(), e)
			if err != nil {
				return err
			}
			defer a.db.Close()
			mail, err := a.findMail(cmd.Context(), args)
			if err != nil {
				return err
			}
			decided, err := do(a.service, cmd.Context(), mail, d.person)
			if err != nil {
				return err
			}
			if d.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(mailDecided{
					OrderID: mail.OrderID, Number: decided.Order.Number, Kind: mail.About, SubjectID: mail.SubjectID,
					By: decided.Ruling.DecidedBy, Why: decided.Ruling.Reason,
				})
			}
			cmd.Printf("Order %d: the %s mail %s.\n", decided.Order.Number, mail.About, done)
			return nil
		},
	}
	d.flags(cmd)
	return cmd
}

// findMail is the mail that the arguments ORDER KIND [SUBJECT] name.
func (a *app) findMail(ctx context.Context, args []string) (fulfillment.SendReceiptArgs, error) {
	id, err := a.orders.Find(ctx, args[0])
	if err != nil {
		return fulfillment.SendReceiptArgs{}, err
	}
	mails, err := a.service.Mails(ctx, fulfillment.MailFilter{OrderID: id})
	if err != nil {
		return fulfillment.SendReceiptArgs{}, err
	}
	var subjects []string
	for _, m := range mails {
		if string(m.Kind) == args[1] && (len(args) < 3 || m.SubjectID == args[2]) {
			subjects = append(subjects, m.SubjectID)
		}
	}
	switch len(subjects) {
	case 0:
		return fulfillment.SendReceiptArgs{}, fmt.Errorf("order %s, %s: %w", args[0], strings.Join(args[1:], " "), fulfillment.ErrNoMail)
	case 1:
		return fulfillment.SendReceiptArgs{OrderID: id, About: fulfillment.MailKind(args[1]), SubjectID: subjects[0]}, nil
	}
	return fulfillment.SendReceiptArgs{}, fmt.Errorf("order %s has several %s mails; name the subject: %s", args[0], args[1], strings.Join(subjects, ", "))
}
