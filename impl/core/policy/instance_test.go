package policy

import (
	"testing"
	"time"
)

// Whoever invents hosts writes no log.
func TestUnknownHostsAreOneLineAMinute(t *testing.T) {
	t.Parallel()
	var hosts strangers
	lines, others := 0, 0
	for second := range 150 {
		for range 100 {
			if n, due := hosts.note(time.Unix(int64(second), 0)); due {
				lines, others = lines+1, others+n
			}
		}
	}
	if lines != 3 || others != 12_000-2 {
		t.Errorf("%d lines that tell of %d others", lines, others)
	}
}
