package server

import "net/http"

// Handler returns what serves HTTP.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// NewBodies returns what receives bodies that may take so much together.
func NewBodies(most int) func(w http.ResponseWriter, r *http.Request, limit int) error {
	return (&bodies{most: most}).receive
}
