package objectstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/objectstore"
	"github.com/writ-id/writ/impl/core/objectstore/buckettest"
	"github.com/writ-id/writ/impl/core/outgoing"
)

// each runs a test with every kind of storage.
func each(t *testing.T, do func(t *testing.T, server *buckettest.Server, store *objectstore.Store)) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *buckettest.Server{"GCS": buckettest.GCS, "S3": buckettest.S3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			do(t, server, &objectstore.Store{Out: outgoing.New(server.Out)})
		})
	}
}

// noise returns so many bytes that are always the same.
func noise(size int64) io.Reader {
	return io.LimitReader(mathrand.NewChaCha8([32]byte{}), size)
}

func put(t *testing.T, store *objectstore.Store, at objectstore.Place, content io.Reader) {
	t.Helper()
	writer, err := store.Create(t.Context(), at, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Abort()
	if _, err := io.Copy(writer, content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
}

// equal compares two streams.
func equal(t *testing.T, got, want io.Reader) {
	t.Helper()
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := 0; ; at += len(a) {
		n, errGot := io.ReadFull(got, a)
		m, errWant := io.ReadFull(want, b)
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			t.Fatalf("it differs within the %d bytes at %d: got %d (%v), want %d (%v)", len(a), at, n, errGot, m, errWant)
		}
		if errWant != nil {
			return
		}
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		for _, size := range []int64{0, 1, 8 << 20, 8<<20 + 1, 20 << 20} {
			path := fmt.Sprintf("a b/%d ä.json", size)
			put(t, store, server.Place(path), noise(size))
			object, err := store.Open(t.Context(), server.Place(path))
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			equal(t, object, noise(size))
			_ = object.Close()
			if _, err := object.Read(make([]byte, 1)); err == nil {
				t.Error("a closed object is read")
			}
		}
	})
}

func TestTheLastWriterReplacesAnObject(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		put(t, store, server.Place("o"), strings.NewReader("first"))
		put(t, store, server.Place("o"), strings.NewReader("second"))
		object, err := store.Open(t.Context(), server.Place("o"))
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		equal(t, object, strings.NewReader("second"))
	})
}

func TestADownloadThatBreaksGoesOn(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		const size = 3 << 20
		put(t, store, server.Place("o"), noise(size))
		before := len(server.Requests())
		server.Cut(1<<20, 0, 1)
		object, err := store.Open(t.Context(), server.Place("o"))
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		equal(t, object, noise(size))
		var ranges []string
		for _, request := range server.Requests()[before:] {
			if fields := strings.Fields(request); strings.HasPrefix(fields[len(fields)-1], "bytes=") {
				ranges = append(ranges, fields[len(fields)-1])
			}
		}
		// How much of what was sent arrives before a cut is up to the connection.
		if len(ranges) != 3 || ranges[2] == "bytes=0-" {
			t.Errorf("got the ranges %q", ranges)
		}
	})
}

func TestADownloadThatNeverGoesOnEnds(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		put(t, store, server.Place("o"), noise(1<<20))
		server.Cut(1000, 0, 0, 0, 0, 0, 0, 0, 0)
		object, err := store.Open(t.Context(), server.Place("o"))
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		n, err := io.Copy(io.Discard, object)
		if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Kind != fault.Unavailable {
			t.Errorf("after %d bytes: got %v", n, err)
		}
	})
}

func TestAnObjectThatChangesWhileItIsReadIsNoObject(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		put(t, store, server.Place("o"), noise(1<<20))
		server.Cut(1000)
		object, err := store.Open(t.Context(), server.Place("o"))
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		put(t, store, server.Place("o"), bytes.NewReader(make([]byte, 1<<20)))
		_, err = io.Copy(io.Discard, object)
		if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Reason != "STORAGE_OBJECT_CHANGED" {
			t.Errorf("got %v", err)
		}
	})
}

// TestREL108_BytesAreToldWhenTheNetworkTakesThem: parts are collected, so a Write that returned says
// nothing of what moved.
func TestREL108_BytesAreToldWhenTheNetworkTakesThem(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		for _, size := range []int64{1 << 20, 20 << 20} {
			var sent atomic.Int64
			writer, err := store.Create(t.Context(), server.Place("o"), func(n int) { sent.Add(int64(n)) })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(writer, noise(size)); err != nil {
				t.Fatal(err)
			}
			if got := sent.Load(); got >= size {
				t.Errorf("of %d bytes %d went before the last part was told to", size, got)
			}
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
			if got := sent.Load(); got < size {
				t.Errorf("of %d bytes %d are told", size, got)
			}
		}
	})
}

func TestAnAbortedUploadLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		for _, size := range []int64{0, 1000, 20 << 20} {
			writer, err := store.Create(t.Context(), server.Place("o"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(writer, noise(size)); err != nil {
				t.Fatal(err)
			}
			writer.Abort()
			if _, err := writer.Write([]byte("more")); err == nil {
				t.Error("it is written to after the end")
			}
			if err := writer.Close(); err == nil {
				t.Error("what was aborted is closed without an error")
			}
			if left := server.Left(); len(left) > 0 {
				t.Errorf("after %d bytes: got %q", size, left)
			}
		}
	})
}

func TestAnUploadWhoseContextEndsLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		writer, err := store.Create(ctx, server.Place("o"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(writer, noise(20<<20)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := writer.Close(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if left := server.Left(); len(left) > 0 {
			t.Errorf("got %q", left)
		}
	})
}

// TestAnAbortEndsTheSessionOfTheUpload: what storages keep of uploads that nobody finished.
func TestAnAbortEndsTheSessionOfTheUpload(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		writer, err := store.Create(t.Context(), server.Place("o"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(writer, noise(10<<20)); err != nil {
			t.Fatal(err)
		}
		writer.Abort()
		all := server.Requests()
		if last := all[len(all)-1]; !strings.HasPrefix(last, "DELETE ") {
			t.Errorf("the last request was %s", last)
		}
	})
}

func TestAnUploadThatFailsOnTheWayLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		var seen atomic.Int64
		server.Refuse(func(r *http.Request) int {
			if r.ContentLength > 1<<20 && seen.Add(1) > 1 {
				return http.StatusForbidden
			}
			return 0
		})
		writer, err := store.Create(t.Context(), server.Place("o"), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(writer, noise(40<<20))
		if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Reason != "STORAGE_DENIED" {
			t.Errorf("got %v", err)
		}
		if again := writer.Close(); !errors.Is(again, err) {
			t.Errorf("closing says %v", again)
		}
		if left := server.Left(); len(left) > 0 {
			t.Errorf("got %q", left)
		}
	})
}

func TestAnUploadGoesOnAfterAnOutage(t *testing.T) {
	each(t, func(t *testing.T, server *buckettest.Server, store *objectstore.Store) {
		var seen atomic.Int64
		server.Refuse(func(r *http.Request) int {
			if r.ContentLength > 1<<20 && seen.Add(1) == 2 {
				return http.StatusServiceUnavailable
			}
			return 0
		})
		put(t, store, server.Place("o"), noise(20<<20))
		object, err := store.Open(t.Context(), server.Place("o"))
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		equal(t, object, noise(20<<20))
	})
}

// TestALargeObjectPassesThroughLittleMemory counts what is alive while 64 MiB go through.
func TestALargeObjectPassesThroughLittleMemory(t *testing.T) {
	const size, most = 64 << 20, 32 << 20
	for name, start := range map[string]func(*testing.T) *buckettest.Server{"GCS": buckettest.GCS, "S3": buckettest.S3} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			store := &objectstore.Store{Out: outgoing.New(server.Out)}
			before := alive()
			watch := &watcher{every: 8 << 20}
			put(t, store, server.Place("o"), io.TeeReader(noise(size), watch))
			object, err := store.Open(t.Context(), server.Place("o"))
			if err != nil {
				t.Fatal(err)
			}
			defer object.Close()
			equal(t, io.TeeReader(object, watch), noise(size))
			if watch.looks != 2*size/(8<<20) || watch.most > before+most {
				t.Errorf("looking %d times, %d MiB were alive at most, before %d MiB", watch.looks, watch.most>>20, before>>20)
			}
		})
	}
}

func alive() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// watcher looks at the memory each time so many bytes have passed.
type watcher struct {
	every, passed int64
	looks         int
	most          uint64
}

func (w *watcher) Write(p []byte) (int, error) {
	for range (w.passed+int64(len(p)))/w.every - w.passed/w.every {
		w.looks++
		w.most = max(w.most, alive())
	}
	w.passed += int64(len(p))
	return len(p), nil
}

// TestWrongPlacesAreRefusedByName: reading and writing say the same of the same mistake, name
// the field and no credentials.
func TestWrongPlacesAreRefusedByName(t *testing.T) {
	t.Parallel()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]*buckettest.Server{"GCS": buckettest.GCS(t), "S3": buckettest.S3(t)}
	for _, test := range []struct {
		storage, name, field, reason string
		change                       func(t *testing.T, at *objectstore.Place)
	}{
		{"both", "no bucket", "bucket", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.Bucket = "" }},
		{"both", "a bucket that is a path", "bucket", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.Bucket = "a/../b" }},
		{"both", "no path", "path", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.Path = "" }},
		{"both", "a line in a path", "path", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.Path = "a\nb" }},
		{"both", "a long path", "path", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.Path = strings.Repeat("a", 1025) }},
		{"both", "a bucket that is not there", "bucket", "STORAGE_BUCKET_NOT_FOUND", func(_ *testing.T, at *objectstore.Place) { at.Bucket = "nowhere" }},
		{"GCS", "no key", "serviceaccount_json", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.ServiceAccount = nil }},
		{"GCS", "no JSON", "serviceaccount_json", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.ServiceAccount = []byte("eyJ0eXBlIjo") }},
		{"GCS", "another type", "serviceaccount_json", "STORAGE_INVALID", member("type", "external_account")},
		{"GCS", "a private key that is none", "serviceaccount_json", "STORAGE_INVALID", member("private_key", "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n")},
		{"GCS", "a token endpoint without TLS", "serviceaccount_json", "STORAGE_INVALID", member("token_uri", "http://tokens.example/token")},
		{"GCS", "a token endpoint that is a file", "serviceaccount_json", "STORAGE_INVALID", member("token_uri", "file:///etc/passwd")},
		{"GCS", "a token endpoint that is not public", "serviceaccount_json", "STORAGE_ADDRESS_FORBIDDEN", member("token_uri", "https://10.0.0.1/token")},
		{"GCS", "another key", "serviceaccount_json", "STORAGE_CREDENTIALS", func(t *testing.T, at *objectstore.Place) {
			var account map[string]string
			if err := json.Unmarshal(at.ServiceAccount, &account); err != nil {
				t.Fatal(err)
			}
			at.ServiceAccount = buckettest.Key(t, other, account["client_email"], account["token_uri"])
		}},
		{"S3", "no endpoint", "endpoint", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.Endpoint = "" }},
		{"S3", "an endpoint with a scheme", "endpoint", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.Endpoint = "https://s3.example" }},
		{"S3", "an endpoint that is not public", "endpoint", "STORAGE_ADDRESS_FORBIDDEN", func(_ *testing.T, at *objectstore.Place) { at.Endpoint = "10.0.0.1:9000" }},
		{"S3", "no access key", "access_key_id", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.AccessKeyID = "" }},
		{"S3", "no secret", "secret_access_key", "STORAGE_INVALID", func(_ *testing.T, at *objectstore.Place) { at.SecretAccessKey = "" }},
		{"S3", "another access key", "access_key_id", "STORAGE_CREDENTIALS", func(_ *testing.T, at *objectstore.Place) { at.AccessKeyID = "other" }},
		{"S3", "another secret", "secret_access_key", "STORAGE_CREDENTIALS", func(_ *testing.T, at *objectstore.Place) { at.SecretAccessKey = "other-secret" }},
		{"S3", "another region", "region", "STORAGE_REGION", func(_ *testing.T, at *objectstore.Place) { at.Region = "eu-west-7" }},
	} {
		for kind, server := range servers {
			if test.storage != "both" && test.storage != kind {
				continue
			}
			t.Run(kind+": "+test.name, func(t *testing.T) {
				store := &objectstore.Store{Out: outgoing.New(server.Out)}
				at := server.Place("o")
				test.change(t, &at)
				_, err := store.Open(t.Context(), at)
				if kind == "GCS" && test.reason == "STORAGE_BUCKET_NOT_FOUND" {
					refused(t, &at, err, at.Field+".path", "STORAGE_OBJECT_NOT_FOUND") // the same status, to who reads
				} else {
					refused(t, &at, err, at.Field+"."+test.field, test.reason)
				}
				writer, err := store.Create(t.Context(), at, nil)
				if err == nil { // a bucket of GCS is asked for with the first bytes
					if _, err = writer.Write([]byte("x")); err == nil {
						err = writer.Close()
					}
				}
				refused(t, &at, err, at.Field+"."+test.field, test.reason)
			})
		}
	}
	for kind, server := range servers {
		t.Run(kind+": an object that is not there", func(t *testing.T) {
			store := &objectstore.Store{Out: outgoing.New(server.Out)}
			at := server.Place("nothing/here")
			_, err := store.Open(t.Context(), at)
			refused(t, &at, err, at.Field+".path", "STORAGE_OBJECT_NOT_FOUND")
		})
		if left := server.Left(); len(left) > 0 {
			t.Errorf("%s: got %q", kind, left)
		}
	}
}

// refused checks a refusal, and that it tells no credentials, to the log either.
func refused(t *testing.T, at *objectstore.Place, err error, field, reason string) {
	t.Helper()
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Reason != reason || refusal.HTTP() != http.StatusBadRequest || len(refusal.Fields) != 1 || refusal.Fields[0].Field != field {
		t.Errorf("got %v, want %s of %s", err, reason, field)
	}
	silent(t, at, fmt.Sprint(err))
}

// silent checks that a text holds no credentials.
func silent(t *testing.T, at *objectstore.Place, text string) {
	t.Helper()
	var account map[string]string
	_ = json.Unmarshal(at.ServiceAccount, &account)
	for _, secret := range []string{string(at.ServiceAccount), account["private_key"], account["client_email"], account["token_uri"], at.AccessKeyID, at.SecretAccessKey} {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("%s tells %s", text, secret)
		}
	}
}

// member changes a member of the key of a service account.
func member(name, value string) func(*testing.T, *objectstore.Place) {
	return func(t *testing.T, at *objectstore.Place) {
		var account map[string]string
		if err := json.Unmarshal(at.ServiceAccount, &account); err != nil {
			t.Fatal(err)
		}
		account[name] = value
		at.ServiceAccount, _ = json.Marshal(account)
	}
}

func TestAPlaceIsPrintedWithoutCredentials(t *testing.T) {
	t.Parallel()
	at := objectstore.Place{Kind: objectstore.S3, Bucket: "b", Path: "p", ServiceAccount: []byte("the whole key"), AccessKeyID: "AKIA", SecretAccessKey: "hidden"}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "at", at, "pointer", &at)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "at", at, "pointer", &at)
	text, _ := json.Marshal(at)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		text = fmt.Appendf(text, format+format, at, &at)
	}
	silent(t, &at, log.String()+string(text))
	if !strings.Contains(log.String(), "s3://b/p") {
		t.Errorf("the log says %s", &log)
	}
}

// TestSEC259_WhatATokenEndpointAnswersIsNotTold: who names the key names the endpoint.
func TestSEC259_WhatATokenEndpointAnswersIsNotTold(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusFound, http.StatusUnauthorized, http.StatusInternalServerError} {
		var followed atomic.Int64
		inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/next" {
				followed.Add(1)
			}
			w.Header().Set("Location", "/next")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":"what-is-inside","error_description":"what-is-inside"}`)
		}))
		defer inside.Close()
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		at := objectstore.Place{Kind: objectstore.GCS, Bucket: "exports", Path: "o", ServiceAccount: buckettest.Key(t, key, "a@example", inside.URL)}
		store := &objectstore.Store{Out: outgoing.New(outgoing.Config{Allow: outgoing.Loopback})}
		_, err = store.Open(t.Context(), at)
		if err == nil || strings.Contains(err.Error(), "what-is-inside") || followed.Load() > 0 {
			t.Errorf("%d: got %v, and %d followed", status, err, followed.Load())
		}
	}
}

// TestSEC252_AStorageIsCalledByTheRulesOfAllCalls: without the exception that tests have,
// nothing on this machine is reached.
func TestSEC252_AStorageIsCalledByTheRulesOfAllCalls(t *testing.T) {
	t.Parallel()
	for kind, server := range map[string]*buckettest.Server{"GCS": buckettest.GCS(t), "S3": buckettest.S3(t)} {
		before := len(server.Requests())
		config := server.Out
		config.Allow = nil
		store := &objectstore.Store{Out: outgoing.New(config)}
		at := server.Place("o")
		_, err := store.Open(t.Context(), at)
		refusal, ok := errors.AsType[*fault.Error](err)
		if !ok || refusal.Reason != "STORAGE_ADDRESS_FORBIDDEN" {
			t.Errorf("%s: got %v", kind, err)
		}
		if after := len(server.Requests()); after != before {
			t.Errorf("%s: %d requests arrived", kind, after-before)
		}
	}
}
