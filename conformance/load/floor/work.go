package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/crypto/argon2"
)

// worker serves /work/STEPS/BYTES: a request that does the steps, such as
// "select+commit+RS256", and answers so many bytes. A scenario's floor is one or
// more of these: what cannot be left out, without any of a product's checks.
//
//	select   reads a row by its primary key
//	commit   inserts a row in a transaction of its own
//	batch    inserts a row together with what waits while a commit is under way
//	RS256    signs with RSA 2048
//	ES256    signs with ECDSA P-256
//	argon2id hashes a password as Writ does: 19 MiB, two passes, one lane
type worker struct {
	pool  *pgxpool.Pool
	rsa   *rsa.PrivateKey
	ecdsa *ecdsa.PrivateKey
	queue chan pending
	turns chan struct{} // of argon2id: one for a core, as memory is limited too
}

// selectable is how many rows there are to select.
const selectable = 10_000

func newWorker(url string) (*worker, error) {
	pool := open(url, "")
	if _, err := pool.Exec(context.Background(), `CREATE TABLE IF NOT EXISTS tokens (id bytea PRIMARY KEY, subject text NOT NULL, expires timestamptz NOT NULL);
		TRUNCATE tokens;
		INSERT INTO tokens SELECT sha256(n::text::bytea), 'a user', now() FROM generate_series(1, `+strconv.Itoa(selectable)+`) n;
		ANALYZE tokens`); err != nil {
		return nil, err
	}
	w := &worker{pool: pool, queue: make(chan pending), turns: make(chan struct{}, 2)}
	var err error
	if w.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return nil, err
	}
	if w.ecdsa, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	go w.write()
	return w, nil
}

// steps are what a request can be made to do.
func (w *worker) steps() map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"handler": func(context.Context) error { return nil },
		"select":  w.selectRow,
		"commit": func(ctx context.Context) error {
			_, err := w.pool.Exec(ctx, "INSERT INTO tokens VALUES ($1, 'a user', now())", newID())
			return err
		},
		"batch": func(context.Context) error {
			done := make(chan error, 1)
			w.queue <- pending{newID(), done}
			return <-done
		},
		"RS256": func(context.Context) error {
			digest := sha256.Sum256(newID())
			_, err := rsa.SignPKCS1v15(nil, w.rsa, crypto.SHA256, digest[:])
			return err
		},
		"ES256": func(context.Context) error {
			digest := sha256.Sum256(newID())
			_, err := ecdsa.SignASN1(rand.Reader, w.ecdsa, digest[:])
			return err
		},
		"argon2id": func(context.Context) error {
			w.turns <- struct{}{}
			defer func() { <-w.turns }()
			argon2.IDKey([]byte("a password"), newID()[:16], 2, 19*1024, 1, 32)
			return nil
		},
	}
}

// ServeHTTP implements http.Handler.
func (w *worker) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	bytes, err := strconv.Atoi(r.PathValue("bytes"))
	if err != nil || bytes > 1<<20 {
		http.Error(out, "how many bytes?", http.StatusBadRequest)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	steps := w.steps()
	for name := range strings.SplitSeq(r.PathValue("steps"), "+") {
		step, ok := steps[name]
		if !ok {
			http.Error(out, "no step "+name, http.StatusBadRequest)
			return
		}
		if err := step(r.Context()); err != nil {
			http.Error(out, fmt.Sprintf("%s: %v", name, err), http.StatusInternalServerError)
			return
		}
	}
	write(out, http.StatusOK, constant[:bytes])
}

var constant = []byte(strings.Repeat(" ", 1<<20))

func newID() []byte {
	id := make([]byte, 32)
	_, _ = rand.Read(id) // never fails
	return id
}

func (w *worker) selectRow(ctx context.Context) error {
	id := sha256.Sum256(strconv.AppendInt(nil, 1+int64(newID()[0])*selectable/256, 10))
	var subject string
	return w.pool.QueryRow(ctx, "SELECT subject FROM tokens WHERE id = $1", id[:]).Scan(&subject)
}

// pending is a row that waits for the writer.
type pending struct {
	id   []byte
	done chan<- error
}

// write commits what is waiting, all of it in one statement, for ever.
func (w *worker) write() {
	for first := range w.queue {
		batch := []pending{first}
		for more := true; more; {
			select {
			case next := <-w.queue:
				batch = append(batch, next)
			default:
				more = false
			}
		}
		ids := make([][]byte, len(batch))
		for i, row := range batch {
			ids[i] = row.id
		}
		_, err := w.pool.Exec(context.Background(), "INSERT INTO tokens SELECT id, 'a user', now() FROM unnest($1::bytea[]) id", ids)
		for _, row := range batch {
			row.done <- err
		}
	}
}

// serveWork serves the work at mux, on a database of its own.
func serveWork(mux *http.ServeMux, url string) {
	w, err := newWorker(url)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/work/{steps}/{bytes}", w)
}
