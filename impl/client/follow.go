package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// Follower follows the events of an instance.
type Follower struct {
	Find    Find
	Filters []map[string]any
	// From is where to begin: nil begins with what happens from now on.
	From *Position
	// Interval is how long to wait when there is nothing new.
	Interval time.Duration
	// Once ends when all that is there was seen.
	Once bool
	// Tell is told what a person wants to know, such as an outage.
	Tell func(format string, args ...any)
	// Connected, if not nil, is told of the server that answered first.
	Connected func(*Server)
	// Sleep waits, and ends with ctx; nil is the clock's. For tests.
	Sleep func(ctx context.Context, d time.Duration) error

	server *Server // that answered last
	known  bool    // whether one ever did
	asked  string  // the address that was asked last
}

// Position is where a follower is: behind an event of an instance.
type Position struct {
	Instance string // "" for whichever is there
	Sequence uint64
}

// The pauses between attempts while the server is away.
const (
	firstPause = 250 * time.Millisecond
	longPause  = 10 * time.Second
	pageLimit  = 1000
)

// Follow calls each for every event, in the order in which they were committed, and
// arrived after the events of an answer: then everything up to there was seen. It
// returns when ctx ends, an error of these, or what the server refuses for good.
func (f *Follower) Follow(ctx context.Context, each func(ctx context.Context, instance string, event json.RawMessage) error, arrived func(Position) error) error {
	at := f.From
	for {
		page, err := f.next(ctx, at)
		if err != nil {
			return err
		}
		d := &page.Details
		if at != nil && (at.Instance != "" && at.Instance != d.InstanceID || at.Sequence > d.ProcessedSequence) {
			f.Tell("the server was made anew: following it from its first event")
			at = &Position{Instance: d.InstanceID}
			continue
		}
		if at != nil {
			for _, event := range page.Result {
				if err := each(ctx, d.InstanceID, event); err != nil {
					return err
				}
			}
		}
		if now := (Position{d.InstanceID, d.Position}); at == nil || *at != now {
			at = &now
			if err := arrived(now); err != nil {
				return err
			}
		}
		if !d.EndOfList {
			continue
		}
		if f.Once {
			return nil
		}
		if err := f.sleep(ctx, f.Interval); err != nil {
			return err
		}
	}
}

// next asks for what comes after an event; nil: for where a follower begins. It asks until
// it is answered, by whichever server is there by then, but fails when none ever was.
func (f *Follower) next(ctx context.Context, at *Position) (*Page, error) {
	query := Query{Filters: OfTypes(nil), Limit: 1}
	if at != nil {
		query = Query{Filters: f.Filters, After: &at.Sequence, Limit: pageLimit}
	}
	away := false
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		found := f.server != nil
		f.asked = ""
		var page *Page
		var err error
		if !found {
			f.server, err = f.Find(ctx)
		}
		if err == nil {
			f.asked = f.server.URL
			page, err = f.server.Events(ctx, query)
		}
		if err == nil {
			if away {
				f.Tell("connected again")
			}
			if !f.known && f.Connected != nil {
				f.Connected(f.server)
			}
			f.known = true
			return page, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f.server = nil
		refused, isRefusal := errors.AsType[*Refused](err)
		switch {
		case isRefusal && refused.Status == http.StatusUnauthorized && found: // the token may be that of one that is no more
			continue
		case isRefusal:
			return nil, err
		case !f.known:
			return nil, f.unreachable(err)
		case !away:
			f.Tell("the server is away, trying again: %v", err)
			away = true
		}
		if err := f.sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return nil, err
		}
	}
}

// unreachable says of which server it is that it was never there.
func (f *Follower) unreachable(err error) error {
	if f.asked == "" { // none was found, and why is said
		return err
	}
	return fmt.Errorf("the server at %s does not answer; start it, or name another one: %w", f.asked, err)
}

func (f *Follower) sleep(ctx context.Context, d time.Duration) error {
	if f.Sleep != nil {
		return f.Sleep(ctx, d)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// OfTypes is the filter of types and groups; none: any.
func OfTypes(types []string) []map[string]any {
	if len(types) == 0 {
		return []map[string]any{}
	}
	return []map[string]any{{"type": map[string]any{"types": types}}}
}
