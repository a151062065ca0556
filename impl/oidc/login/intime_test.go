package login

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-id/writ/impl/core/secret"
)

// By a clock that only the test moves: answers come at multiples of a quarter of a
// second, whatever they took.
func TestSEC170_AnswersComeAtTheSameTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]time.Duration{
			0: 250 * time.Millisecond, time.Millisecond: 250 * time.Millisecond, 249 * time.Millisecond: 250 * time.Millisecond,
			251 * time.Millisecond: 500 * time.Millisecond, time.Second + time.Millisecond: 1250 * time.Millisecond,
		} {
			begun, wrong := time.Now(), errors.New("wrong")
			if err := inTime(t.Context(), secret.Hasher{}.Quantum(), func() error { time.Sleep(took); return wrong }); !errors.Is(err, wrong) {
				t.Errorf("got %v", err)
			}
			if got := time.Since(begun); got != want {
				t.Errorf("what takes %s is answered after %s, want %s", took, got, want)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		if err := inTime(gone, secret.Hasher{}.Quantum(), func() error { return nil }); err != nil || time.Since(begun) != 0 {
			t.Errorf("who is gone keeps it waiting: %s, %v", time.Since(begun), err)
		}
	})
}
