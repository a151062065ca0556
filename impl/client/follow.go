package client

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// Follower follows the events of an instance.
type Follower struct {
	Find    Find
	Filters []map[string]any
	// From is the event to begin after: nil begins with what happens from now on.
	From *uint64
	// Interval is how long to wait when there is nothing new.
	Interval time.Duration
	// Once ends when all that is there was seen.
	Once bool
	// Tell is told what a person wants to know, such as an outage.
	Tell func(format string, args ...any)
	// Sleep waits, and ends with ctx; nil is the clock's. For tests.
	Sleep func(ctx context.Context, d time.Duration) error

	server *Server // that answered last
	known  bool    // whether one ever did
}

// The pauses between attempts while the server is away.
const (
	firstPause = 250 * time.Millisecond
	longPause  = 10 * time.Second
	pageLimit  = 1000
)

// Follow calls each for every event, in the order in which they were committed, and
// arrived after the events of an answer: then everything up to position was seen. It
// returns when ctx ends, an error of these, or what the server refuses for good.
func (f *Follower) Follow(ctx context.Context, each func(context.Context, json.RawMessage) error, arrived func(position uint64) error) error {
	at := f.From
	for {
		page, err := f.next(ctx, at)
		if err != nil {
			return err
		}
		if at != nil && *at > page.Details.ProcessedSequence { // this one never had the event
			f.Tell("the server is at event %d, before %d: it was made anew; following it from its first event", page.Details.ProcessedSequence, *at)
			at = new(uint64)
			continue
		}
		if at != nil {
			for _, event := range page.Result {
				if err := each(ctx, event); err != nil {
					return err
				}
			}
		}
		if at == nil || *at != page.Details.Position {
			at = &page.Details.Position
			if err := arrived(*at); err != nil {
				return err
			}
		}
		if !page.Details.EndOfList {
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
func (f *Follower) next(ctx context.Context, at *uint64) (*Page, error) {
	query := Query{Filters: f.Filters, After: at, Limit: pageLimit}
	if at == nil {
		query = Query{Filters: OfTypes(nil), Limit: 1}
	}
	away := false
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		found := f.server != nil
		var page *Page
		var err error
		if !found {
			f.server, err = f.Find(ctx)
		}
		if err == nil {
			page, err = f.server.Events(ctx, query)
		}
		if err == nil {
			if away {
				f.Tell("connected again")
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
		case isRefusal, !f.known:
			return nil, err
		case !away:
			f.Tell("the server is away, trying again: %v", err)
			away = true
		}
		if err := f.sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return nil, err
		}
	}
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
