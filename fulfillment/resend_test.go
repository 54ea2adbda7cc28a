package fulfillment_test

import (
	"strings"
	"testing"

	"paidonce/fulfillment"
)

// A person has a mail sent again, and the mail server is away for a moment.
func TestAResendThatMeetsADeadServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, policy := range []fulfillment.Resend{fulfillment.ResendOnce, fulfillment.ResendNever} {
		b.service.Resend = policy
		o := b.fulfilled(t)
		before := []string{lost, lost}
		if policy == fulfillment.ResendNever {
			before = before[:1]
		}
		t.Log(policy, "by itself:", strings.Join(b.walk(t, o, before...), ", "))
		if _, err := b.service.ResendMail(t.Context(), receiptOf(o.ID), person()); err != nil {
			t.Fatal(err)
		}
		got := b.walk(t, o, append(before, notSent)...)
		if got[len(got)-1] != "sent" {
			t.Errorf("%s: a person said send it again; the server was away once: %s", policy, strings.Join(got, ", "))
		}
	}
}
