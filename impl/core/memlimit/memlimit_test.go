package memlimit

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-id/writ/impl/core/secret"
)

func TestGarbageIsFourTimesWhatLivesAndTheHeapNoMoreThanSomeMiB(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		live uint64
		want int64
	}{
		{mib, 400}, {10 * mib, 400}, {22 * mib, 400}, {32 * mib, 250}, {56 * mib, 100}, {64 * mib, 75}, {75 * mib, 50}, {1000 * mib, 50},
	} {
		if got := percentFor(test.live); got != test.want {
			t.Errorf("of %d MiB: got %d, want %d", test.live/mib, got, test.want)
		}
	}
}

// held returns how many bytes the heap has of the operating system.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64() + samples[2].Value.Uint64()
}

// hashes makes so many password hashes, three at a time as two cores have them, and returns
// the most that the heap held after one of them.
func hashes(count int) (most uint64) {
	var left, top atomic.Int64
	left.Store(int64(count))
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				secret.Hasher{}.Hash("a password")
				for now := int64(held()); ; {
					if before := top.Load(); now <= before || top.CompareAndSwap(before, now) {
						break
					}
				}
			}
		})
	}
	all.Wait()
	return uint64(top.Load())
}

// A load of log-ins is the garbage of many hashes. What a process would hold without the rule
// is the control.
func TestALoadOfLogInsIsBoundedAndGivenBack(t *testing.T) {
	const mib = 1 << 20
	t.Setenv("GOGC", "") // else that decides
	debug.SetGCPercent(percent)
	debug.FreeOSMemory()
	control := hashes(40)
	debug.FreeOSMemory()

	Bound()
	bounded := hashes(40)
	t.Logf("%d MiB without the rule, %d MiB with it", control/mib, bounded/mib)
	if bounded > heapBytes+32*mib || bounded >= control {
		t.Errorf("the heap held %d MiB, and %d without the rule", bounded/mib, control/mib)
	}
	k := keeper{}
	_, _, cycles := read()
	k.cycles.Store(cycles)
	k.rest()
	if after := held(); after > 32*mib {
		t.Errorf("once there is nothing to do it holds %d MiB", after/mib)
	}
}
