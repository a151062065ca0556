package server

import "net/http"

// Handler returns what serves HTTP.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// NewBodies returns what receives bodies that may take so much together.
func NewBodies(most int) func(w http.ResponseWriter, r *http.Request, limit int) error {
	return (&bodies{most: most}).receive
}

// Came returns where a request comes from and which host it asks for, of the peer, the host
// and the headers of its connection.
func Came(p *Proxies, peer, host string, header func(string) []string) (from, asked string) {
	at := p.of(peer, host, header)
	return at.from, at.host
}
