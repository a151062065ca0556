// Package freeport finds ports for programs of tests that cannot say which one they got.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports that are tried: below those that systems give to who asks for any, so that none of
// those takes one before its program listens.
const first, last = 12000, 32000

// Get returns a port of this machine on which nothing listens.
func Get() (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(first + rand.IntN(last-first)) //nolint:gosec // no secret
		listener, failed := net.Listen("tcp", "127.0.0.1:"+port)
		if failed == nil {
			return port, listener.Close()
		}
		err = errors.Join(err, failed)
	}
	return "", err
}
