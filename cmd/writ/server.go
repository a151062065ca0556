package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/writ-id/writ/impl/client"
	"github.com/writ-id/writ/impl/dev/ready"
)

// serverFlags say which server a command calls, and as whom.
type serverFlags struct{ url, token, addr string }

func (f *serverFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "url", "", "the server, for example https://id.example; the writ dev of this machine when empty")
	flags.StringVar(&f.token, "token", "", "token to call it with; give it as WRIT_TOKEN or WRIT_TOKEN_FILE, a command line can be read by others")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8080", "host:port of the running writ dev, when no server is named")
}

// find returns the server that is named, or the writ dev of this machine as its
// administrator.
func (f *serverFlags) find(ctx context.Context) (*client.Server, error) {
	if f.url == "" {
		return f.findDev(ctx)
	}
	at, err := url.Parse(f.url)
	switch {
	case err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "":
		return nil, usageError{fmt.Errorf("--url: %q is not the address of a server, such as https://id.example", f.url)}
	case f.token == "":
		return nil, usageError{errors.New("--url needs a token: WRIT_TOKEN, WRIT_TOKEN_FILE or --token")}
	}
	return &client.Server{URL: strings.TrimRight(f.url, "/"), Token: f.token, HTTP: client.NewHTTP(nil)}, nil
}

// findDev asks the writ dev at the address for the file with its credentials. Whoever
// answers there names a file only; it has to be one that a node wrote which listens on the
// port that was asked.
func (f *serverFlags) findDev(ctx context.Context) (*client.Server, error) {
	path, at, err := askDev(ctx, f.addr, "/_dev/credentials")
	if err != nil || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("no writ dev answers at %s: start one with `writ dev`, or say where it is (--addr, WRIT_ADDR), or name a server (--url, WRIT_URL, with WRIT_TOKEN)", f.addr)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the credentials of the writ dev at %s: %w", f.addr, err)
	}
	var info ready.Info
	if err := json.Unmarshal(text, &info); err != nil || port(info.Addr) != port(f.addr) {
		return nil, fmt.Errorf("%s does not hold the credentials of a writ dev at %s", path, f.addr)
	}
	token := f.token
	if token == "" {
		token = info.AdminToken
	}
	return &client.Server{URL: at, Token: token, HTTP: client.NewHTTP(trusting(filepath.Dir(path)))}, nil
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// trusting trusts the certificate that a writ dev made in a folder, if it did.
func trusting(dir string) http.RoundTripper {
	own, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	if err != nil {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(own)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport
}
