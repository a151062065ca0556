package event

import "context"

// Origin is where the request came from that an event is of. What the product does by
// itself has none.
type Origin struct {
	ClientAddress string // of IPv4 or IPv6, without a port
	Traceparent   string // its place in a trace (W3C Trace Context)
}

// OriginKey is what a context of a request is asked for; the value is an Origin.
type OriginKey struct{}

// OriginOf returns where the request of a context came from.
func OriginOf(ctx context.Context) Origin {
	origin, _ := ctx.Value(OriginKey{}).(Origin)
	return origin
}
