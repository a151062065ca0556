package load

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// errDone is what a call returns that has nothing left to do, for example no
// token to revoke. It ends the measurement and is no failure.
var errDone = errors.New("nothing is left to do")

// call is one operation of a scenario: a request, or all those of a login.
type call func(c *conn) error

// processes are those whose CPU counts. postgres is 0 where there is none.
type processes struct{ server, postgres int }

func (p processes) cpu() (server, postgres time.Duration, err error) {
	if server, err = cpuOfOne(p.server); err != nil || p.postgres == 0 {
		return server, 0, err
	}
	postgres, err = cpuOf(p.postgres)
	return server, postgres, err
}

// cpuOfOne returns the CPU time of a process without its children: PostgreSQL is
// a child of `writ dev`, and counted apart.
func cpuOfOne(pid int) (time.Duration, error) {
	s, err := statOf(pid)
	return time.Duration(s.user+s.system) * time.Second / ticksPerSecond, err
}

// sample is what a measurement saw.
type sample struct {
	calls            int
	server, postgres time.Duration // CPU of all calls
	elapsed          time.Duration
	p50, p99         time.Duration
}

// perThousand returns the CPU milliseconds of 1,000 calls.
func (s sample) perThousand() (server, postgres, total float64) {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(s.calls, 1)) }
	return each(s.server), each(s.postgres), each(s.server + s.postgres)
}

// total returns the CPU milliseconds of 1,000 calls, server and PostgreSQL.
func (s sample) total() float64 { _, _, total := s.perThousand(); return total }

// measure lets every worker make its calls, one after the other, for so long.
func measure(of processes, workers []call, conns []*conn, length time.Duration) (sample, error) {
	server, postgres, err := of.cpu()
	if err != nil {
		return sample{}, err
	}
	var (
		group     sync.WaitGroup
		mu        sync.Mutex
		latencies []time.Duration
		failure   error
		stop      = make(chan struct{})
		halt      sync.Once
	)
	begin := time.Now()
	end := begin.Add(length)
	for i, call := range workers {
		group.Go(func() {
			own := make([]time.Duration, 0, 1<<14)
			var err error
			for err == nil {
				select {
				case <-stop:
					err = errDone
					continue
				default:
				}
				started := time.Now()
				if started.After(end) {
					break
				}
				if err = call(conns[i]); err == nil {
					own = append(own, time.Since(started))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, own...)
			if err != nil {
				halt.Do(func() { close(stop) })
				if !errors.Is(err, errDone) {
					failure = cmp.Or(failure, err)
				}
			}
		})
	}
	group.Wait()
	s := sample{calls: len(latencies), elapsed: time.Since(begin)}
	if failure != nil {
		return s, failure
	}
	if s.calls == 0 {
		return s, errors.New("not one call was made")
	}
	serverAfter, postgresAfter, err := of.cpu()
	if err != nil {
		return s, err
	}
	s.server, s.postgres = serverAfter-server, postgresAfter-postgres
	slices.Sort(latencies)
	s.p50, s.p99 = latencies[s.calls/2], latencies[s.calls*99/100]
	return s, nil
}

// together does something for all workers at once, before a measurement.
func together(workers int, do func(worker int) error) error {
	errs := make(chan error, workers)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { errs <- do(i) })
	}
	group.Wait()
	close(errs)
	for err := range errs { // the first will do: the others are mostly the same
		if err != nil {
			return err
		}
	}
	return nil
}

// cheapest returns the sample that cost least: the others had company.
func cheapest(samples []sample) sample {
	return slices.MinFunc(samples, func(a, b sample) int { return cmp.Compare(a.total(), b.total()) })
}

func (s sample) String() string {
	server, postgres, total := s.perThousand()
	database := "–"
	if s.postgres > 0 {
		database = fmt.Sprintf("%.0f", postgres)
	}
	return fmt.Sprintf("%.0f | %.2f | %.2f | %.0f | %s | %.0f", float64(s.calls)/s.elapsed.Seconds(), millis(s.p50), millis(s.p99), server, database, total)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
