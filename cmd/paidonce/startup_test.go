package main

import (
	"strings"
	"testing"
	"time"

	"paidonce/fulfillment"
	"paidonce/internal/provider"
)

// A process whose limits do not fit into one another does not begin to work: it says which.
func TestWorkersDoNotStartWithLimitsThatDoNotFit(t *testing.T) {
	t.Parallel()
	a := &app{service: &fulfillment.Service{Calls: &provider.Calls{Lease: time.Hour}}}
	client, err := a.workers(fulfillment.Queues())
	if client != nil || err == nil || !strings.Contains(err.Error(), "create_checkout: the lease of a call (1h0m0s) must be less than its timeout (40s)") {
		t.Errorf("got %v, %v", client, err)
	}
}
