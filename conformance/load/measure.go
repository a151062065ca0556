// Package load measures what a call costs: the CPU time of the server and of
// PostgreSQL, and the server's allocations, beside a floor in the same run
// (command floor), and for OAuth and OpenID Connect beside another provider too
// (peer). `make bench` prints the tables of BENCHMARKS.md.
//
// The figure to compare is CPU per call. Requests per second on a machine that
// the load generator shares say little.
package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ticksPerSecond is the unit of /proc/PID/stat (USER_HZ, 100 on every Linux).
const ticksPerSecond = 100

// cpuOf returns the CPU time of a process and of its children, dead or alive.
func cpuOf(pid int) (time.Duration, error) {
	own, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	total := own.user + own.system + own.childUser + own.childSystem
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			continue // the thread ended
		}
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				return 0, err
			}
			if s, err := statOf(pid); err == nil {
				total += s.user + s.system
			}
		}
	}
	return time.Duration(total) * time.Second / ticksPerSecond, nil
}

type stat struct{ user, system, childUser, childSystem int64 }

func statOf(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may hold spaces
	fields := strings.Fields(rest)
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	return stat{number(11), number(12), number(13), number(14)}, nil
}

// mallocs returns how many objects a Go process with pprof has allocated.
func mallocs(debugURL string) (uint64, error) {
	res, err := http.Get(debugURL + "/debug/pprof/heap?debug=1")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if count, ok := strings.CutPrefix(lines.Text(), "# Mallocs = "); ok {
			return strconv.ParseUint(count, 10, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("%s tells no Mallocs", debugURL), lines.Err())
}

// process is a server under measurement.
type process struct {
	pid   int
	debug string // URL of its pprof
}

// Cost is what one call of a scenario costs.
type Cost struct {
	Server, PostgreSQL time.Duration // CPU
	Allocs             float64
	P50, P99           time.Duration
	PerSecond          float64
}

// Total is the CPU of both.
func (c Cost) Total() time.Duration { return c.Server + c.PostgreSQL }

const connections = 16

// run makes n calls, 16 at a time, closed loop, and returns what one costs.
func run(ctx context.Context, server process, postgres, n int, call func(ctx context.Context, worker, i int) error) (Cost, error) {
	var before, after [3]int64
	read := func(into *[3]int64) error {
		own, err := cpuOf(server.pid)
		if err != nil {
			return err
		}
		database, err := cpuOf(postgres)
		if err != nil {
			return err
		}
		objects, err := mallocs(server.debug)
		*into = [3]int64{int64(own), int64(database), int64(objects)}
		return err
	}
	if err := read(&before); err != nil {
		return Cost{}, err
	}
	latencies := make([]time.Duration, n)
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var workers sync.WaitGroup
	start := time.Now()
	for worker := range connections {
		workers.Go(func() {
			for failure.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				begin := time.Now()
				if err := call(ctx, worker, i); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
				latencies[i] = time.Since(begin)
			}
		})
	}
	workers.Wait()
	elapsed := time.Since(start)
	if err := failure.Load(); err != nil {
		return Cost{}, *err
	}
	if err := read(&after); err != nil {
		return Cost{}, err
	}
	slices.Sort(latencies)
	return Cost{
		Server: time.Duration(after[0]-before[0]) / time.Duration(n), PostgreSQL: time.Duration(after[1]-before[1]) / time.Duration(n),
		Allocs: float64(after[2]-before[2]) / float64(n), P50: latencies[n/2], P99: latencies[n*99/100], PerSecond: float64(n) / elapsed.Seconds(),
	}, nil
}

// client is an HTTP client with keep-alive connections for all workers.
var client = &http.Client{Transport: &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64, DisableCompression: true}}

// do makes a REST call and fails unless the status is want.
func do(ctx context.Context, method, url, token, body string, want int) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %.200s", method, url, res.Status, text)
	}
	return err
}
