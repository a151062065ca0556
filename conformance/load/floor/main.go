// Command floor is what the benchmarks divide by: the least a Go server can do
// for the same answers. Plain net/http handlers run the product's own SQL and
// write JSON by hand; nothing authenticates, checks, limits or explains.
//
// Usage: floor ADDR DATABASE_URL INSTANCE_ID ORG_ID [DATABASE_URL_FOR_WORK]
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/writ-id/writ/gen/db"
)

func main() {
	if len(os.Args) != 5 && len(os.Args) != 6 {
		log.Fatal("usage: floor ADDR DATABASE_URL INSTANCE_ID ORG_ID [DATABASE_URL_FOR_WORK]")
	}
	debug.SetGCPercent(400) // as the product does
	pool, search := open(os.Args[2], ""), open(os.Args[2], "force_custom_plan")
	f := floor{pool, search, db.New(), os.Args[3], os.Args[4]}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /resources/v3alpha/targets/{id}", f.get)
	mux.HandleFunc("POST /resources/v3alpha/targets", f.create)
	mux.HandleFunc("POST /resources/v3alpha/targets/_search", f.search)
	mux.HandleFunc("POST /resources/v3alpha/users", f.createUser)
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	if len(os.Args) == 6 {
		serveWork(mux, os.Args[5])
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	}
	log.Fatal((&http.Server{Addr: os.Args[1], Handler: mux, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe())
}

func open(url, planCache string) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = 16
	config.ConnConfig.RuntimeParams["jit"] = "off"
	if planCache != "" {
		config.MaxConns = 8
		config.ConnConfig.RuntimeParams["plan_cache_mode"] = planCache
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	return pool
}

type floor struct {
	pool, searchPool *pgxpool.Pool
	queries          *db.Queries
	instanceID       string
	orgID            string
}

type target struct {
	Name        string `json:"name"`
	RestWebhook struct {
		URL string `json:"url"`
	} `json:"restWebhook"`
	Timeout string `json:"timeout"`
}

type foundTarget struct {
	db.Target
	Total int64
}

func (f *floor) get(w http.ResponseWriter, r *http.Request) {
	rows, _ := f.pool.Query(r.Context(), "SELECT * FROM targets WHERE instance_id = $1 AND id = $2", f.instanceID, r.PathValue("id"))
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[db.Target])
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	b := append(make([]byte, 0, 512), `{"target":`...)
	b = appendTarget(b, t.ID, t.Sequence, t.ChangeDate, f.instanceID, t.Name, t.Url, t.TimeoutNanos)
	write(w, http.StatusOK, append(b, '}'))
}

func (f *floor) create(w http.ResponseWriter, r *http.Request) {
	var t target
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	timeout, err := time.ParseDuration(t.Timeout)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, now := uuid.Must(uuid.NewV7()).String(), time.Now().UTC()
	payload, _ := json.Marshal(t)
	var sequence int64
	err = f.pool.QueryRow(r.Context(), `INSERT INTO targets (
		instance_id, id, name, name_folded, target_type, url, timeout_nanos, sequence, creation_date, change_date
	) VALUES ($1, $2, $3, $3, 'rest_webhook', $4, $5, append_event($1, 'target', $2, 'target.added', $6, 'floor', 2::smallint, $1, $7), $7, $7)
	RETURNING sequence`, f.instanceID, id, t.Name, t.RestWebhook.URL, int64(timeout), payload, now).Scan(&sequence)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b := append(make([]byte, 0, 512), `{"details":`...)
	write(w, http.StatusCreated, append(appendDetails(b, id, sequence, now, f.instanceID), '}'))
}

type user struct {
	Username string `json:"username"`
	Service  struct {
		Name string `json:"name"`
	} `json:"service"`
}

func (f *floor) createUser(w http.ResponseWriter, r *http.Request) {
	var u user
	if err := json.NewDecoder(r.Body).Decode(&u); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, now := uuid.Must(uuid.NewV7()).String(), time.Now().UTC()
	payload, _ := json.Marshal(u)
	var sequence int64
	err := f.pool.QueryRow(r.Context(), `INSERT INTO users (
		instance_id, id, org_id, user_type, username, username_folded, display_name, display_name_folded, access_token_type, sequence, creation_date, change_date
	) VALUES ($1, $2, $3, 2, $4, $4, $5, $5, 1, append_event($1, 'user', $2, 'user.machine.added', $6, 'floor', 3::smallint, $3, $7), $7, $7)
	RETURNING sequence`, f.instanceID, id, f.orgID, u.Username, u.Service.Name, payload, now).Scan(&sequence)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b := append(make([]byte, 0, 512), `{"details":`...)
	write(w, http.StatusCreated, append(appendDetails(b, id, sequence, now, f.orgID), '}'))
}

func (f *floor) search(w http.ResponseWriter, r *http.Request) {
	var filters []json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&filters); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	newest, err := f.queries.NewestEvent(r.Context(), f.pool, f.instanceID)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	found, _ := f.searchPool.Query(r.Context(), `WITH page AS (
		SELECT * FROM targets t WHERE t.instance_id = $1 ORDER BY t.creation_date DESC, t.id DESC LIMIT 100
	) SELECT page.*, (SELECT sum(n) FROM row_counts c WHERE c.instance_id = $1 AND c.resource = 'targets')::bigint AS total FROM page`, f.instanceID)
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[foundTarget])
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b := append(make([]byte, 0, 64<<10), `{"details":{"appliedLimit":100,"totalResult":"`...)
	b = strconv.AppendInt(b, rows[0].Total, 10)
	b = append(b, `","processedSequence":"`...)
	b = strconv.AppendInt(b, newest.Sequence, 10)
	b = append(b, `"},"result":[`...)
	for i := range rows {
		t := &rows[i]
		b = appendTarget(b, t.ID, t.Sequence, t.ChangeDate, f.instanceID, t.Name, t.Url, t.TimeoutNanos)
		b = append(b, ',')
	}
	write(w, http.StatusOK, append(b[:len(b)-1], ']', '}'))
}

func appendTarget(b []byte, id string, sequence int64, changed time.Time, instanceID, name, url string, nanos int64) []byte {
	b = append(b, `{"details":`...)
	b = appendDetails(b, id, sequence, changed, instanceID)
	b = append(b, `,"target":{"name":`...)
	b = strconv.AppendQuote(b, name)
	b = append(b, `,"restWebhook":{"url":`...)
	b = strconv.AppendQuote(b, url)
	b = append(b, `},"timeout":"`...)
	b = strconv.AppendInt(b, nanos/1e9, 10)
	return append(b, `s"}}`...)
}

func appendDetails(b []byte, id string, sequence int64, changed time.Time, instanceID string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, id...)
	b = append(b, `","sequence":"`...)
	b = strconv.AppendInt(b, sequence, 10)
	b = append(b, `","changeDate":"`...)
	b = changed.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","resourceOwner":{"type":"OWNER_TYPE_INSTANCE","id":"`...)
	b = append(b, instanceID...)
	return append(b, `"}}`...)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
