package objectstore

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	gcsapi "google.golang.org/api/storage/v1"

	"github.com/writ-id/writ/impl/core/fault"
)

const (
	maxKeyJSON = 16 << 10
	maxKeyBits = 4096 // more only cost time to sign with
	// chunk is what an upload holds in memory; a chunk that fails is sent again.
	chunk = 8 << 20
	// cleanup bounds what is done about an upload that nobody waits for any more.
	cleanup = 30 * time.Second

	serviceAccount = "serviceaccount_json"
)

// gcs is a place in Google Cloud Storage, by its JSON API.
type gcs struct {
	at      *Place
	service *gcsapi.Service
	session *session
}

// newGCS gets a token for the key at once: a wrong one is known before anything is written.
func newGCS(ctx context.Context, at *Place, over *road) (*gcs, error) {
	config, err := at.key()
	if err != nil {
		return nil, err
	}
	tokens := &tokens{at: at, config: config, call: &within{ctx: ctx, next: &road{answers: over.answers}}}
	token, err := tokens.Token()
	if err != nil {
		return nil, err
	}
	session := &session{next: &oauth2.Transport{Base: over, Source: oauth2.ReuseTokenSource(token, tokens)}}
	service, err := gcsapi.NewService(ctx, option.WithHTTPClient(&http.Client{Transport: session, CheckRedirect: over.answers.CheckRedirect}), option.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	return &gcs{at: at, service: service, session: session}, nil
}

// key reads the key of the service account. Other kinds of credentials name files, programs
// and addresses to get tokens from, so they are refused.
func (p *Place) key() (*jwt.Config, error) {
	var account struct {
		Type         string `json:"type"`
		ClientEmail  string `json:"client_email"`
		PrivateKeyID string `json:"private_key_id"`
		PrivateKey   string `json:"private_key"`
		TokenURI     string `json:"token_uri"`
	}
	switch {
	case len(p.ServiceAccount) == 0:
		return nil, p.invalid(serviceAccount, "the key of the service account is missing")
	case len(p.ServiceAccount) > maxKeyJSON || json.Unmarshal(p.ServiceAccount, &account) != nil:
		return nil, p.invalid(serviceAccount, "this is not the JSON key of a service account")
	case account.Type != "service_account":
		return nil, p.invalid(serviceAccount, "only keys of the type service_account are taken")
	case account.ClientEmail == "":
		return nil, p.invalid(serviceAccount, "client_email is missing")
	case !privateKey(account.PrivateKey):
		return nil, p.invalid(serviceAccount, "private_key is not an RSA key of at most %d bits in PEM", maxKeyBits)
	case !tokenAddress(account.TokenURI):
		return nil, p.invalid(serviceAccount, "token_uri is not an https address")
	}
	return &jwt.Config{
		Email: account.ClientEmail, PrivateKey: []byte(account.PrivateKey), PrivateKeyID: account.PrivateKeyID,
		TokenURL: account.TokenURI, Scopes: []string{gcsapi.DevstorageReadWriteScope},
	}, nil
}

func privateKey(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	return err == nil && ok && key.N.BitLen() <= maxKeyBits
}

// tokenAddress reports whether a token endpoint may have an address: https, and http on this
// machine, which package outgoing refuses unless the operator allows it.
func tokenAddress(text string) bool {
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.User != nil {
		return false
	}
	host, err := netip.ParseAddr(at.Hostname())
	return at.Scheme == "https" || at.Scheme == "http" && err == nil && host.IsLoopback()
}

// tokens gets the tokens of a key.
type tokens struct {
	at     *Place
	config *jwt.Config
	call   *within
}

// Token implements oauth2.TokenSource. What the endpoint answers is not told: the tenant chose
// its address.
func (t *tokens) Token() (*oauth2.Token, error) {
	ctx := context.WithValue(t.call.ctx, oauth2.HTTPClient, &http.Client{Transport: t.call, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
	token, err := t.config.TokenSource(ctx).Token()
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case err == nil && token.AccessToken == "":
		return nil, t.at.refuse(fault.FailedPrecondition, "STORAGE_CREDENTIALS", serviceAccount, "the token endpoint gives no token for the key")
	case err == nil:
		return token, nil
	case ok && refused.Response.StatusCode < http.StatusInternalServerError && refused.Response.StatusCode != http.StatusTooManyRequests:
		return nil, t.at.refuse(fault.FailedPrecondition, "STORAGE_CREDENTIALS", serviceAccount, "the token endpoint does not take the key")
	case ok:
		return nil, unavailable(fmt.Errorf("the token endpoint answers %d", refused.Response.StatusCode))
	case t.call.err != nil:
		return nil, t.at.failed(t.call.err, serviceAccount)
	}
	return nil, t.at.refuse(fault.FailedPrecondition, "STORAGE_CREDENTIALS", serviceAccount, "the token endpoint gives no token for the key")
}

// within makes the calls of a library that knows no context, and keeps the error that it
// would only quote.
type within struct {
	ctx  context.Context // see above
	next http.RoundTripper
	err  error
}

// RoundTrip implements http.RoundTripper.
func (w *within) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request.WithContext(w.ctx))
	w.err = err
	return response, err
}

func (g *gcs) read(ctx context.Context, offset int64, pin string) (*part, error) {
	call := g.service.Objects.Get(g.at.Bucket, g.at.Path).Context(ctx)
	if offset > 0 {
		call.Header().Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	if pin != "" {
		generation, err := strconv.ParseInt(pin, 10, 64)
		if err != nil {
			return nil, err
		}
		call.Generation(generation)
	}
	response, err := call.Download() //nolint:bodyclose // whoever reads the part closes it
	if refused, ok := errors.AsType[*googleapi.Error](err); ok && refused.Code == http.StatusNotFound {
		switch {
		case pin != "":
			return nil, g.at.changed() // its generation is gone
		case strings.Contains(refused.Error(), "bucket does not exist"):
			return nil, g.at.noBucket()
		}
		return nil, g.at.noObject()
	}
	if err != nil {
		return nil, err
	}
	return newPart(response.Body, response.Header, response.ContentLength, offset, response.Header.Get("X-Goog-Generation"))
}

// gcsUpload is a resumable upload. The library reads the object from a pipe.
type gcsUpload struct {
	*io.PipeWriter
	storage *gcs
	ctx     context.Context // of the whole upload
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // once done
}

func (g *gcs) write(ctx context.Context) (upload, error) {
	ctx, cancel := context.WithCancel(ctx)
	from, to := io.Pipe()
	u := &gcsUpload{PipeWriter: to, storage: g, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = from.CloseWithError(ctx.Err()) })
	go func() {
		defer close(u.done)
		defer stop()
		_, u.err = g.service.Objects.Insert(g.at.Bucket, &gcsapi.Object{Name: g.at.Path, ContentType: "application/octet-stream"}).Context(ctx).
			Media(from, googleapi.ChunkSize(chunk), googleapi.EnableAutoChecksum()).Do()
		// A Write that waits gets the reason.
		_ = from.CloseWithError(u.err)
	}()
	return u, nil
}

// Write implements io.Writer.
func (u *gcsUpload) Write(p []byte) (int, error) {
	n, err := u.PipeWriter.Write(p)
	return n, u.why(err)
}

// why says that the context ended, if it did: whoever noticed it first says something else.
func (u *gcsUpload) why(err error) error {
	if err != nil && u.ctx.Err() != nil {
		return u.ctx.Err()
	}
	return err
}

func (u *gcsUpload) commit() error {
	_ = u.Close()
	<-u.done
	return u.why(u.err)
}

var errAborted = errors.New("the upload is aborted")

// abort ends the session of the upload, too, which the storage would keep for a week.
func (u *gcsUpload) abort() {
	_ = u.CloseWithError(errAborted) // no end: the library must not take it for one
	u.cancel()
	<-u.done
	at := u.storage.session.at.Load()
	if at == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), cleanup)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, *at, nil)
	if err != nil {
		return
	}
	if response, err := u.storage.session.RoundTrip(request); err == nil {
		_ = response.Body.Close()
	}
}

// session notes at which address the storage takes an upload, which the library keeps to itself.
type session struct {
	next http.RoundTripper
	at   atomic.Pointer[string]
}

// RoundTrip implements http.RoundTripper.
func (s *session) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(request)
	if err == nil && request.URL.Query().Get("uploadType") == "resumable" && response.StatusCode == http.StatusOK {
		if at := response.Header.Get("Location"); at != "" {
			s.at.Store(&at)
		}
	}
	return response, err
}

func (g *gcs) refusal(err error) error {
	refused, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		return g.at.failed(err, "bucket")
	}
	if refused.Code == http.StatusNotFound {
		return g.at.noBucket()
	}
	return g.at.status(refused.Code, serviceAccount)
}
