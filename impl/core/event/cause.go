package event

import "time"

// Cause is why something happens: by whom, when and from where.
type Cause struct {
	Creator string // the user who caused it; "system" for the product itself
	At      time.Time
	Origin
}

// Origin is where the request came from that an event is of. What the product does by
// itself has none.
type Origin struct {
	ClientAddress string // of IPv4 or IPv6, without a port
	Traceparent   string // its place in a trace (W3C Trace Context)
}
