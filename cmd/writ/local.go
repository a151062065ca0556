package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// localTimeout is how long a node of this machine may take to answer a command.
const localTimeout = 5 * time.Second

// callLocal calls a node at an address of this machine, which serves https (--tls) or http, and
// returns its answer and where it is. Nothing is sent to a server that does not speak the one that is
// tried. Its certificate is its own, and who it is does not matter: see urlOrDev and findDev.
func callLocal(ctx context.Context, method, addr, path string, body []byte) (res *http.Response, at string, err error) {
	client := http.Client{Timeout: localTimeout, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // nothing that is sent is secret
	}}
	for _, scheme := range []string{"https", "http"} {
		at = scheme + "://" + addr
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, method, at+path, bytes.NewReader(body)); err != nil {
			return nil, "", usageError{fmt.Errorf("--addr: %w", err)}
		}
		if res, err = client.Do(req); err == nil {
			return res, at, nil
		}
	}
	return nil, "", err
}

// askDev returns what a node at an address says at a path, and where it is.
func askDev(ctx context.Context, addr, path string) (text, at string, err error) {
	res, at, err := callLocal(ctx, http.MethodGet, addr, path, nil)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return strings.TrimSpace(string(answer)), at, err
}
