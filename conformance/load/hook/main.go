// Command hook is both ends of a webhook with nothing in between, to compare with: hook
// receive ADDR answers 200 to what it is sent, hook echo ADDR with the request of an
// execution, hook send URL N FILE posts a body N times, signed, 16 at a time, and prints the
// CPU that one cost in microseconds.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	var err error
	switch os.Args[1] {
	case "receive", "echo":
		err = receive(os.Args[2], os.Args[1] == "echo")
	case "send":
		err = send(os.Args[2], os.Args[3], os.Args[4])
	}
	if err != nil {
		log.Fatal(err)
	}
}

func receive(addr string, echo bool) error {
	return (&http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !echo {
			return
		}
		var payload struct{ Request json.RawMessage }
		if json.Unmarshal(body, &payload) == nil {
			_, _ = w.Write(payload.Request)
		}
	})}).ListenAndServe()
}

func send(url, times, file string) error {
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil {
		return err
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const workers = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	var next, failed atomic.Int64
	var all sync.WaitGroup
	begin := cpu()
	for range workers {
		all.Go(func() {
			for next.Add(1) <= n {
				if err := post(client, url, body); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if failed.Load() > 0 {
		return fmt.Errorf("%d of %d failed", failed.Load(), n)
	}
	fmt.Println((cpu() - begin).Microseconds() / n)
	return nil
}

func post(client *http.Client, url string, body []byte) error {
	mac := hmac.New(sha256.New, make([]byte, 32))
	mac.Write(body)
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Webhook-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	return err
}

// cpu returns what this process used.
func cpu() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
