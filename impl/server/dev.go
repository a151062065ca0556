package server

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/devapi"
	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/document"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/signing"
)

// Dev is what a node has in development: messages stay with their codes, and
// who is at this machine has the operations of contracts/openapi/dev.yaml.
type Dev struct {
	Clock *clock.Clock // what Config.Now reads
	Hosts []string     // under which /_dev is served, besides those of this machine, in lower case
	// Database is the URL of the private PostgreSQL, for tools at /_dev/database. Its
	// socket is in a folder that only the user of the node enters.
	Database string
	// Credentials is the path of the ready file, which only that user reads, for tools
	// at /_dev/credentials.
	Credentials string
	// Clients are the client IDs of applications by the names that the ready file has.
	Clients map[string]string
	// Worlds makes isolated installations; a world has none.
	Worlds Worlds
	// Recorded, if not nil, keeps what is asked and answered.
	Recorded func(http.Handler) http.Handler

	faults  faults
	tickets tickets
}

// Worlds are isolated installations (impl/dev/world). Their errors are refusals.
type Worlds interface {
	// Create makes one. gone is closed when it is no more.
	Create(ctx context.Context, asked *devapi.WorldRequest) (id string, gone <-chan struct{}, err error)
	// List returns the IDs, the oldest first.
	List() []string
	// Info returns how to reach one: the content of a ready file.
	Info(id string) (any, error)
	Delete(ctx context.Context, id string) error
	Snapshot(ctx context.Context, id string) (name string, err error)
	Restore(ctx context.Context, id, snapshot string) error
}

// develop serves what development has besides t, the table of all: the operations of
// contracts/openapi/dev.yaml, faults, and what keeps all that is asked. steps are those of
// every request.
func (s *Server) develop(t *table, steps []step) http.Handler {
	foreign := emptyTable()
	s.serveProvider(foreign, s.public.SignedBy(signing.Foreign{Set: s.keys}))
	foreign.mux.Handle("/", t)
	whole := through(s.Dev.faults.hit(t, foreign), steps...)
	if s.Dev.Recorded != nil {
		whole = s.Dev.Recorded(whole)
	}
	own := &group{table: t, refuse: refuseMethod, steps: []step{s.Dev.only, notStored, s.known, s.receive(maxDevBytes)}}
	devapi.HandlerWithOptions(&console{Server: s, whole: whole}, devapi.StdHTTPServerOptions{BaseRouter: own, ErrorHandlerFunc: s.refuseParameter})
	return whole
}

// maxDevBytes is how long a request may be: a seed file is its longest part.
const maxDevBytes = 2 << 20

// only serves a path of development to who names the node as this machine, or by one
// of the hosts that were told: a page from elsewhere whose name leads here (DNS
// rebinding), or that sends a form here, is not who develops.
func (d *Dev) only(handler http.Handler) http.Handler {
	handler = http.NewCrossOriginProtection().Handler(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			writeFault(w, fault.New(fault.PermissionDenied, "CROSS_ORIGIN_REQUEST", "a page of another origin asked for this; open it in a tab of its own"))
			return
		}
		// Both, for a header says nothing against the name that the browser knows.
		for _, host := range []string{w.(*exchange).host, r.Host} {
			if !d.isLocal(host) {
				writeFault(w, fault.New(fault.PermissionDenied, "HOST_NOT_LOCAL", "%q is not a name of this machine; allow it by --dev-host", host))
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}

func (d *Dev) isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	at, _ := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || at.IsLoopback() || slices.Contains(d.Hosts, host)
}

// console serves what only development has.
type console struct {
	*Server
	whole http.Handler // of all that the server serves
}

var _ devapi.ServerInterface = (*console)(nil)

var devSchemas = document.Of(openapi.Development)

// devRequest reads the body of a request, which receive has read whole.
func devRequest[T any](r *http.Request, schema string) (*T, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		text = []byte("{}")
	}
	asked := new(T)
	return asked, devSchemas.Decode(schema, text, asked)
}

// GetDevelopmentDocument serves the document of these operations.
func (c *console) GetDevelopmentDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapi.Development)
}

// ListDevelopmentMessages shows the inbox.
func (c *console) ListDevelopmentMessages(w http.ResponseWriter, r *http.Request, _ devapi.ListDevelopmentMessagesParams) {
	message.Handler(c.DB).ServeHTTP(w, r)
}

// GetClock shows the clock.
func (c *console) GetClock(w http.ResponseWriter, r *http.Request) {
	c.answer(w, r, http.StatusOK, c.Dev.Clock.State(), nil)
}

// MoveClock moves it.
func (c *console) MoveClock(w http.ResponseWriter, r *http.Request) {
	if isEmpty(r.Body) {
		c.refuse(w, r, fault.Invalid("INVALID_FIELD", "", "a change has to be sent: set, advance, frozen or reset"))
		return
	}
	asked, err := devRequest[clock.Change](r, "ClockChange")
	if err == nil {
		if wrong := c.Dev.Clock.Apply(*asked); wrong != nil {
			err = fault.Invalid("INVALID_FIELD", "", "%v", wrong)
		}
	}
	c.answer(w, r, http.StatusOK, c.Dev.Clock.State(), err)
}

// GetDatabase tells tools of this machine where the database is.
func (c *console) GetDatabase(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, c.Dev.Database+"\n")
}

// GetCredentialsPath tells them where the ready file is.
func (c *console) GetCredentialsPath(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, c.Dev.Credentials+"\n")
}

// answer writes an answer, or what kept it from being one.
func (c *console) answer(w http.ResponseWriter, r *http.Request, status int, value any, err error) {
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	if value == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client went away
}

// worlds returns what makes worlds.
func (c *console) worlds() (Worlds, error) {
	if c.Dev.Worlds == nil {
		return nil, fault.New(fault.NotFound, "NO_WORLDS", "this is a world itself: ask the writ dev that made it")
	}
	return c.Dev.Worlds, nil
}

// ListWorlds lists them.
func (c *console) ListWorlds(w http.ResponseWriter, r *http.Request) {
	all := []any{}
	worlds, err := c.worlds()
	if err == nil {
		for _, id := range worlds.List() {
			if info, err := worlds.Info(id); err == nil { // it has not gone meanwhile
				all = append(all, info)
			}
		}
	}
	c.answer(w, r, http.StatusOK, all, err)
}

// CreateWorld makes one.
func (c *console) CreateWorld(w http.ResponseWriter, r *http.Request) {
	if err := c.createWorld(w, r); err != nil {
		c.refuse(w, r, err)
	}
}

func (c *console) createWorld(w http.ResponseWriter, r *http.Request) error {
	worlds, err := c.worlds()
	if err != nil {
		return err
	}
	asked, err := devRequest[devapi.WorldRequest](r, "WorldRequest")
	if err != nil {
		return err
	}
	id, gone, err := worlds.Create(r.Context(), asked)
	if err != nil {
		return err
	}
	info, err := worlds.Info(id)
	if err != nil {
		return err
	}
	wire := http.NewResponseController(w)
	if asked.Hold != nil && *asked.Hold {
		// The connection is watched for as long as it takes; nothing more comes of it.
		_ = wire.SetReadDeadline(time.Time{})
		_ = wire.SetWriteDeadline(time.Time{})
		w.Header().Set("Connection", "close")
	}
	c.answer(w, r, http.StatusCreated, info, nil)
	if asked.Hold != nil && *asked.Hold {
		_ = wire.Flush()
		select {
		case <-r.Context().Done():
			_ = worlds.Delete(context.WithoutCancel(r.Context()), id) // gone already
		case <-gone:
		}
	}
	return nil
}

// GetWorld says how to reach one.
func (c *console) GetWorld(w http.ResponseWriter, r *http.Request, id devapi.WorldID) {
	worlds, err := c.worlds()
	var info any
	if err == nil {
		info, err = worlds.Info(id)
	}
	c.answer(w, r, http.StatusOK, info, err)
}

// DeleteWorld ends one.
func (c *console) DeleteWorld(w http.ResponseWriter, r *http.Request, id devapi.WorldID) {
	worlds, err := c.worlds()
	if err == nil {
		err = worlds.Delete(r.Context(), id)
	}
	c.answer(w, r, http.StatusNoContent, nil, err)
}

// SnapshotWorld keeps what is in one.
func (c *console) SnapshotWorld(w http.ResponseWriter, r *http.Request, id devapi.WorldID) {
	worlds, err := c.worlds()
	var name string
	if err == nil {
		name, err = worlds.Snapshot(r.Context(), id)
	}
	c.answer(w, r, http.StatusCreated, devapi.Snapshot{Snapshot: name}, err)
}

// RestoreWorld makes it that again.
func (c *console) RestoreWorld(w http.ResponseWriter, r *http.Request, id devapi.WorldID) {
	worlds, err := c.worlds()
	var info any
	if err == nil {
		var asked *devapi.Snapshot
		if asked, err = devRequest[devapi.Snapshot](r, "Snapshot"); err == nil {
			if err = worlds.Restore(r.Context(), id, asked.Snapshot); err == nil {
				info, err = worlds.Info(id)
			}
		}
	}
	c.answer(w, r, http.StatusOK, info, err)
}
