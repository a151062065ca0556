// Package memlimit bounds what a process keeps of memory that it does not use.
//
// A node keeps a few MiB alive, so that Go's default would collect a hundred times a second
// under load, for a fifth of the CPU: garbage may grow to four times what lives (GOGC=400).
// But what lives for a moment counts too: three password hashes at work are 57 MiB, a backlog
// of deliveries is as many, and four times that stays with the process long after they are
// done. So the rule is four times, and no more than makes a heap of heapBytes, unless half as
// much as is alive is more:
//
//	garbage = min(4 × live, max(live / 2, heapBytes − live))
//
// Memory that hashes had is taken again in pieces, so that a process would keep twice that: what
// it holds of the operating system is no more than limitBytes, unless twice what lives is more.
// Both are looked at after each collection, which costs a few microseconds. Once a process has not collected for
// a while it has nothing to do, and gives back what it does not use.
package memlimit

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	percent   = 400
	heapBytes = 112 << 20
	// limitBytes is what the runtime has of the operating system, without the program's own pages.
	limitBytes = 112 << 20
	// restAfter is how long a process has not collected that gives memory back.
	restAfter = 5 * time.Second
	// worthwhile is how much there has to be to give back.
	worthwhile = 16 << 20
)

// Bound sets the rule for this process, once. GOGC, if set, decides instead, and GOMEMLIMIT of
// what it holds.
func Bound() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
		k := keeper{limits: os.Getenv("GOMEMLIMIT") == ""}
		k.limit(0)
		k.percent.Store(percent)
		k.resting = time.AfterFunc(restAfter, k.rest)
		k.await()
	}
}

type keeper struct {
	limits  bool // whether what the process holds is limited by this package
	limited atomic.Int64
	percent atomic.Int64
	cycles  atomic.Uint64 // as of the last look
	resting *time.Timer
}

// await has collected called after the next collection, of which the end of an object
// nobody holds is the only sign that the runtime gives.
func (k *keeper) await() {
	runtime.SetFinalizer(&sentinel{keeper: k}, func(s *sentinel) {
		s.keeper.collected()
		s.keeper.await()
	})
}

// sentinel is too large for the allocator that puts small objects together.
type sentinel struct {
	keeper *keeper
	_      [32]byte
}

// collected sets how much garbage there may be until the next collection.
func (k *keeper) collected() {
	live, _, cycles := read()
	if set := percentFor(live); set != k.percent.Swap(set) {
		debug.SetGCPercent(int(set))
	}
	k.limit(live)
	k.cycles.Store(cycles)
	k.resting.Reset(restAfter)
}

// limit sets what the process may hold, in steps of 16 MiB so that small changes are none.
func (k *keeper) limit(live uint64) {
	if !k.limits {
		return
	}
	const step = 16 << 20
	if set := int64(max(limitBytes, 2*live+step-1)) / step * step; set != k.limited.Swap(set) {
		debug.SetMemoryLimit(set)
	}
}

// percentFor returns the rule as GOGC has it, in steps of 25 so that small changes are none.
func percentFor(live uint64) int64 {
	garbage := min(4*live, max(live/2, heapBytes-min(live, heapBytes)))
	exact := float64(garbage) / float64(max(live, 1)) * 100
	return min(percent, max(50, int64(math.Round(exact/25))*25))
}

// rest gives back what is not used, if nothing was collected since the last look.
func (k *keeper) rest() {
	_, unused, cycles := read()
	if cycles == k.cycles.Load() && unused > worthwhile {
		debug.FreeOSMemory()
	}
}

// read returns how many bytes were alive at the last collection, how many the process has
// and does not need, and how many collections there were.
func read() (live, unused, cycles uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	live = samples[0].Value.Uint64()
	dead := samples[2].Value.Uint64() - min(live, samples[2].Value.Uint64())
	return live, samples[1].Value.Uint64() + dead, samples[3].Value.Uint64()
}

// Rested gives back what a start needed and running does not: garbage, and the pages of the
// program's own file that it has read. These stay in the cache of the operating system.
func Rested() {
	debug.FreeOSMemory()
	forgetProgram()
}
