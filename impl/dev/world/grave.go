package world

import (
	"fmt"
	"net/http"
	"time"
)

// maxGraves is how many addresses of worlds that went tell why nothing is there any more.
const maxGraves = 32

// grave answers at the address of a world that ended because nobody called it: whoever thought
// that it is there, such as the instance that has it as its identity provider, is told.
type grave struct {
	http *http.Server
	door *door
}

// bury has the address of a world say that it went. The oldest such address is given back when
// there are too many.
func (w *Worlds) bury(one *world) {
	message := fmt.Sprintf("the world %s ended, because nobody called it for %s: ask for another one, and with a ttl when it has to stay longer (POST /_dev/worlds)", one.id, one.ttl)
	g := &grave{door: one.door, http: &http.Server{
		ReadHeaderTimeout: 10 * time.Second, TLSConfig: w.Base.TLS,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
			rw.Header().Set("Connection", "close")
			rw.WriteHeader(http.StatusGone)
			fmt.Fprintln(rw, message)
		}),
	}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isOver() {
		g.door.close()
		return
	}
	w.graves = append(w.graves, g)
	if len(w.graves) > maxGraves {
		w.graves[0].close()
		w.graves = w.graves[1:]
	}
	w.making.Go(func() { // until it is closed
		if w.Base.TLS != nil {
			_ = g.http.ServeTLS(g.door.lend(), "", "")
		} else {
			_ = g.http.Serve(g.door.lend())
		}
	})
}

func (g *grave) close() {
	g.door.close()
	_ = g.http.Close()
}
