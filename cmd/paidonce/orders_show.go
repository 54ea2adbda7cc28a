package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"paidonce/fulfillment"
	"paidonce/internal/money"
	"paidonce/internal/provider"
	"paidonce/webhooks"
)

func newOrdersShow(e *surroundings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ORDER",
		Short: "Show all there is about one order, and what a person has to do about it",
		Long: `show prints an order's history, its payments, and what it caused: licenses, mails, calls to the provider,
jobs, and the deliveries that are about it; then what needs attention, each with the command that settles
it. ORDER is an id or a number.`,
		Args: cobra.ExactArgs(1),
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
			d, err := a.service.Dossier(cmd.Context(), id)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, dossierJSON(d))
			}
			printDossier(cmd, d)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printDossier(cmd *cobra.Command, d fulfillment.Dossier) {
	printOrder(cmd, d)
	printPayments(cmd, d)
	printReturns(cmd, d)
	printEffects(cmd, d)
	if len(d.Deliveries) > 0 {
		cmd.Println("\nDeliveries about it, the newest first")
		printDeliveries(cmd, d.Deliveries)
	}
	cmd.Println()
	if len(d.Attention) == 0 {
		cmd.Println("Nothing about it needs a person.")
		return
	}
	cmd.Println("NEEDS ATTENTION")
	for _, one := range d.Attention {
		cmd.Printf("  %s, since %s: %s\n", one.Kind, at(one.Since), plain(short(one.Detail, 300)))
		for _, command := range settling(one, d) {
			cmd.Printf("      %s\n", plain(command))
		}
	}
}

func printOrder(cmd *cobra.Command, d fulfillment.Dossier) {
	o := d.Order
	t := newTable(cmd.OutOrStdout())
	t.row("order", fmt.Sprintf("%d, %s", o.Number, o.ID))
	state := string(o.State)
	if o.ReviewReason != nil {
		state += ": " + string(*o.ReviewReason)
	}
	t.row("state", state)
	buyer := textOr(&o.Email, "no address")
	if o.Locale != "" {
		buyer += " (" + o.Locale + ")"
	}
	t.row("buyer", buyer)
	for _, line := range d.Lines {
		unit := money.Amount{Minor: line.UnitMinor, Currency: o.Currency}
		t.row("line", fmt.Sprintf("%d x %s %s, %s", line.Quantity, line.SKU, unit, line.Name))
	}
	t.row("total", o.Total().String())
	t.end()
	cmd.Println("\nHistory (UTC)")
	t = newTable(cmd.OutOrStdout())
	t.row("  "+at(o.CreatedAt), "made")
	for _, entry := range historyOf(d) {
		t.row(append([]string{"  " + at(entry.at)}, entry.cells...)...)
	}
	t.end()
}

// past is a line of an order's history.
type past struct {
	at    time.Time
	cells []string
}

// historyOf is what people decided and how the order moved, in the order of time. A decision
// goes before the move that it caused in the same moment.
func historyOf(d fulfillment.Dossier) (all []past) {
	for _, ruling := range d.Rulings {
		what := string(ruling.Action)
		if ruling.AmountMinor != nil {
			what += " " + amount(*ruling.AmountMinor, *ruling.Currency)
		}
		all = append(all, past{ruling.DecidedAt, []string{"decided", what, ruling.DecidedBy + ": " + ruling.Reason}})
	}
	for _, step := range d.Transitions {
		move := string(step.FromState) + " → " + string(step.ToState)
		all = append(all, past{step.At, []string{string(step.Event), move, step.CauseProvider + " " + step.CauseEventID}})
	}
	slices.SortStableFunc(all, func(a, b past) int { return a.at.Compare(b.at) })
	return all
}

// amount is an amount in a currency that may be one we do not know: it was charged all the same.
func amount(minor int64, currency string) string {
	return money.Amount{Minor: minor, Currency: money.Currency(currency)}.String()
}

func printPayments(cmd *cobra.Command, d fulfillment.Dossier) {
	surplus := map[string]bool{}
	for _, p := range d.Surplus() {
		surplus[p.ID.String()] = true
	}
	cmd.Println("\nPayments")
	t := newTable(cmd.OutOrStdout())
	for _, p := range d.Payments {
		words := []string{string(p.Status), "asked for " + amount(p.ExpectedMinor, string(p.Currency))}
		if p.ReceivedMinor != nil {
			words = append(words, "received "+amount(*p.ReceivedMinor, *p.ReceivedCurrency))
		}
		if p.RefundedMinor > 0 {
			words = append(words, "sent back "+amount(p.RefundedMinor, *p.ReceivedCurrency))
		}
		if p.AcceptedBy != nil {
			words = append(words, "accepted by "+*p.AcceptedBy)
		}
		if surplus[p.ID.String()] {
			words = append(words, "surplus: pays for nothing")
		}
		if p.ReadSeq < p.ReadWanted {
			words = append(words, "a read is wanted")
		}
		t.row("  "+p.ID.String(), strings.Join(words, ", "))
		t.row("", p.Provider+" "+world(p.Livemode, p.Account)+" "+strings.Join(d.Resources[p.ID], " "))
	}
	t.end()
}

func printReturns(cmd *cobra.Command, d fulfillment.Dossier) {
	if len(d.Refunds)+len(d.Disputes) == 0 {
		return
	}
	cmd.Println("\nMoney that went back")
	t := newTable(cmd.OutOrStdout())
	for _, r := range d.Refunds {
		t.row("  refund", r.RefundID, r.Status, amount(r.AmountMinor, string(r.Currency)), at(r.CreatedAt))
	}
	for _, r := range d.Disputes {
		t.row("  dispute", r.DisputeID, r.Status, amount(r.AmountMinor, string(r.Currency)), at(r.CreatedAt), r.Reason)
	}
	t.end()
}

func printEffects(cmd *cobra.Command, d fulfillment.Dossier) {
	cmd.Println("\nWhat it caused")
	t := newTable(cmd.OutOrStdout())
	t.row("  licenses", licensesOf(d))
	for _, mail := range d.Mails {
		t.row("  mail", string(mail.Kind)+" "+string(mail.State), textOr(mail.LastError, ""))
	}
	for _, call := range d.Calls {
		t.row("  call", call.IdempotencyKey+" "+string(call.State), short(textOr(call.LastError, ""), 100))
	}
	for _, job := range d.Jobs {
		t.row("  job", fmt.Sprintf("%d %s %s, %d of %d attempts", job.ID, job.Kind, job.State, job.Attempt, job.MaxAttempts), short(job.LastError(), 100))
	}
	t.end()
}

// licensesOf counts licenses by their state: "2 active".
func licensesOf(d fulfillment.Dossier) string {
	count := map[string]int{}
	for _, l := range d.Licenses {
		count[string(l.Status)]++
	}
	var words []string
	for _, status := range slices.Sorted(maps.Keys(count)) {
		words = append(words, strconv.Itoa(count[status])+" "+status)
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// refundAgain are the flags that send the same money of the same payment again: without them a
// part that failed would come back as all that is left.
func refundAgain(one fulfillment.Attention, d fulfillment.Dossier) string {
	const another = " --key ANOTHER"
	for _, r := range d.Refunds {
		if r.RefundID == one.Subject {
			return fmt.Sprintf(" --payment %s --amount %d", r.PaymentID, r.AmountMinor) + another
		}
	}
	for _, call := range d.Calls {
		for _, r := range d.Rulings {
			switch {
			case call.IdempotencyKey != one.Subject || r.ID != call.SubjectID:
			case r.Surplus:
				return " --surplus" + another
			case strings.Contains("&"+string(call.Params), "&amount="):
				return fmt.Sprintf(" --payment %s --amount %d", *r.PaymentID, *r.AmountMinor) + another
			default:
				return fmt.Sprintf(" --payment %s", *r.PaymentID) + another
			}
		}
	}
	return another
}

// settling are the commands that settle a thing, the likeliest first. docs/operations.md says
// which of them is right when.
func settling(one fulfillment.Attention, d fulfillment.Dossier) []string {
	order := strconv.FormatInt(d.Order.Number, 10)
	const who = " --by WHO --why TEXT"
	switch one.Kind {
	case fulfillment.AttentionReview:
		return []string{"paidonce orders accept " + order + who, "paidonce orders refund " + order + who}
	case fulfillment.AttentionSurplus:
		return []string{"paidonce orders refund " + order + " --surplus" + who}
	case fulfillment.AttentionRefundFailed:
		return []string{"paidonce orders refund " + order + refundAgain(one, d) + who}
	case fulfillment.AttentionDispute:
		return []string{"none: answer it in Stripe's dashboard, in time (docs/operations.md)"}
	case fulfillment.AttentionDelivery:
		name := strings.TrimPrefix(one.Subject, "stripe/")
		return []string{"paidonce deliveries show " + name, "paidonce deliveries retry " + name}
	case fulfillment.AttentionJob:
		return []string{"paidonce jobs show " + one.Subject, "paidonce jobs retry " + one.Subject}
	case fulfillment.AttentionCall:
		switch operation, _, _ := strings.Cut(one.Subject, ":"); provider.Operation(operation) {
		case provider.OpCheckout:
			return []string{"none: mend the cause, and let the buyer open another checkout"}
		case provider.OpRefund:
			return []string{"paidonce orders refund " + order + refundAgain(one, d) + who}
		default:
			return []string{"paidonce jobs retry --all --order " + order}
		}
	case fulfillment.AttentionCallUnknown, fulfillment.AttentionCallStuck:
		commands := []string{"paidonce jobs list --state all --order " + order, "paidonce jobs retry --all --order " + order}
		if strings.HasPrefix(one.Subject, string(provider.OpRefund)+":") { // if retrying finds nothing, nor does Stripe's dashboard
			commands = append(commands, "paidonce orders refund "+order+refundAgain(one, d)+who)
		}
		return commands
	case fulfillment.AttentionMailParked:
		return []string{"paidonce orders email " + order + " ADDRESS" + who, "paidonce mails resend " + order + " " + one.Subject + who}
	case fulfillment.AttentionMailUnknown:
		mail := order + " " + one.Subject + who
		return []string{"paidonce mails mark-sent " + mail, "paidonce mails resend " + mail}
	}
	return nil
}

// dossierJSON is an order for a program. Keys of licenses are not in it: they are worth money,
// and whoever looks for what went wrong needs none of them.
func dossierJSON(d fulfillment.Dossier) any {
	type needs struct {
		fulfillment.Attention

		Commands []string `json:"commands"`
	}
	attention := []needs{}
	for _, one := range d.Attention {
		attention = append(attention, needs{one, settling(one, d)})
	}
	entry := newOrderEntry(fulfillment.OrderAttention{Order: d.Order, Attention: d.Attention})
	return struct {
		orderEntry

		Lines      []lineJSON             `json:"lines"`
		Timeline   []stepJSON             `json:"timeline"`
		Decisions  []rulingJSON           `json:"decisions"`
		Payments   []paymentJSON          `json:"payments"`
		Refunds    []returnJSON           `json:"refunds"`
		Disputes   []returnJSON           `json:"disputes"`
		Licenses   []licenseJSON          `json:"licenses"`
		Mails      []mailJSON             `json:"mails"`
		Calls      []callJSON             `json:"calls"`
		Jobs       []fulfillment.JobEntry `json:"jobs"`
		Deliveries []webhooks.Entry       `json:"deliveries"`
		Attention  []needs                `json:"attention"`
	}{
		entry, linesJSON(d), timelineJSON(d), rulingsJSON(d), paymentsJSON(d), refundsJSON(d), disputesJSON(d), licensesJSON(d),
		mailsJSON(d), callsJSON(d), append([]fulfillment.JobEntry{}, d.Jobs...), append([]webhooks.Entry{}, d.Deliveries...), attention,
	}
}
