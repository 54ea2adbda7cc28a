package main

import (
	"context"
	"fmt"
	"os"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"
)

// heapLine and rssLine are what --heap writes before the numbers.
const (
	heapLine = "peak_heap_bytes="
	rssLine  = "peak_rss_bytes="
)

// peakRSS is the most memory that this process has had, in bytes; 0 where the system does not
// tell. What a parent is told of its child (ru_maxrss) counts the parent's own memory at the
// fork, and so is no measure.
func peakRSS() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		var kib uint64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}

// watchHeap looks at the heap until ctx ends; what it has grown to at most is then in peak.
func watchHeap(ctx context.Context, peak *atomic.Uint64) {
	const every = 5 * time.Millisecond
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		metrics.Read(sample)
		if now := sample[0].Value.Uint64(); now > peak.Load() {
			peak.Store(now)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
