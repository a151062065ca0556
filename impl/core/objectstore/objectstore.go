// Package objectstore reads and writes objects in the cloud storage of tenants: Google Cloud
// Storage by the key of a service account, and what speaks the protocol of S3. Exports go there
// and imports come from there.
//
// Objects are streamed, in memory that does not depend on their size. A download that breaks
// goes on where it was, in the same generation of the object or not at all; an upload is there
// whole when Close returned, and before that nothing is. Every connection goes through package
// outgoing and so keeps to its rules about addresses, that of the token endpoint which a key
// names included.
//
// Credentials are in a Place and nowhere else: no error, log line or text of this package holds
// one, nor what a server answered.
package objectstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/outgoing"
)

// Kind is a kind of storage.
type Kind string

// The kinds of storage.
const (
	GCS Kind = "gcs" // Google Cloud Storage
	S3  Kind = "s3"  // what speaks the protocol of Amazon S3
)

// Place says where an object is and with which credentials it is reached.
type Place struct {
	Kind   Kind
	Bucket string
	Path   string
	Field  string // of the request that names the place, for refusals: gcs_output

	ServiceAccount []byte `json:"-"` // of GCS: the key as JSON

	Endpoint        string // of S3: host or host:port
	Region          string // of S3; "" is us-east-1, which servers of one's own take
	AccessKeyID     string `json:"-"`
	SecretAccessKey string `json:"-"`
	Insecure        bool   // of S3: http instead of https
}

// String names the object, and no credentials.
func (p Place) String() string { return string(p.Kind) + "://" + p.Bucket + "/" + p.Path }

// GoString implements fmt.GoStringer, so that %#v shows no more than %v.
func (p Place) GoString() string { return p.String() }

// LogValue implements slog.LogValuer.
func (p Place) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Store reads and writes objects. It is safe for concurrent use.
type Store struct {
	Out *outgoing.Client
}

// storage is one kind of storage, with the credentials of a place.
type storage interface {
	// read asks for an object from an offset on; pin is "" or the generation that it has to have.
	read(ctx context.Context, offset int64, pin string) (*part, error)
	write(ctx context.Context) (upload, error)
	// refusal says what an error means to who named the place.
	refusal(err error) error
}

// Open reads an object. ctx bounds all of it, until Close.
func (s *Store) Open(ctx context.Context, at Place) (io.ReadCloser, error) {
	road := &road{answers: s.Out.Own(maxObject), download: true}
	to, err := dial(ctx, &at, road)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	reader := &reader{ctx: ctx, cancel: cancel, at: &at, from: to, road: road}
	if err := reader.open(); err != nil {
		_ = reader.Close()
		return nil, err
	}
	return reader, nil
}

// upload is an object that is being written.
type upload interface {
	io.Writer
	commit() error
	// abort takes back what was sent.
	abort()
}

// Writer writes an object. It has to be closed or aborted; it is not for concurrent use.
type Writer struct {
	upload upload
	to     storage
	road   *road
	err    error // the first one, or of one that has ended
}

// Create writes an object, which takes the place of one that is there when it is closed. ctx
// bounds all of it. sent, if not nil, is called with how many bytes the network took, as
// a Write may return long before or after; it has to be safe for concurrent use.
func (s *Store) Create(ctx context.Context, at Place, sent func(n int)) (*Writer, error) {
	road := &road{answers: s.Out.Own(maxObject), sent: sent}
	to, err := dial(ctx, &at, road)
	if err != nil {
		return nil, err
	}
	upload, err := to.write(ctx)
	if err != nil {
		road.answers.CloseIdleConnections()
		return nil, to.refusal(err)
	}
	return &Writer{upload: upload, to: to, road: road}, nil
}

// Write implements io.Writer. After an error there is nothing to write to any more.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.upload.Write(p)
	if err != nil {
		w.err = w.to.refusal(err)
	}
	return n, w.err
}

// Close makes the object be there. With an error, of a Write before too, it is not.
func (w *Writer) Close() error {
	if w.upload == nil {
		return w.err
	}
	if w.err == nil {
		if err := w.upload.commit(); err != nil {
			w.err = w.to.refusal(err)
		}
	}
	err := w.err
	if err != nil {
		w.upload.abort()
	}
	w.end()
	return err
}

// Abort leaves nothing of the object behind. After Close it does nothing, so it can be deferred.
func (w *Writer) Abort() {
	if w.upload == nil {
		return
	}
	w.upload.abort()
	w.end()
}

func (w *Writer) end() {
	if w.err == nil {
		w.err = io.ErrClosedPipe
	}
	w.upload = nil
	w.road.answers.CloseIdleConnections()
}

// dial prepares the calls to the storage of a place.
func dial(ctx context.Context, at *Place, over *road) (storage, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	if at.Kind == S3 {
		return newS3(at, over)
	}
	return newGCS(ctx, at, over)
}

// Limits of what is stored and answered.
const (
	maxObject = 5 << 40 // no storage has longer ones
	maxAnswer = 1 << 20 // of what is no object
	maxPath   = 1024
)

// check refuses what no storage has.
func (p *Place) check() error {
	switch {
	case p.Kind != GCS && p.Kind != S3:
		return fault.New(fault.Internal, "STORAGE_KIND", "there is no storage of the kind %q", p.Kind)
	case p.Bucket == "":
		return p.invalid("bucket", "the name of the bucket is missing")
	case !bucketName.MatchString(p.Bucket):
		return p.invalid("bucket", "this is no name of a bucket: lower-case letters, digits, and - _ . between them")
	case p.Path == "":
		return p.invalid("path", "the path of the object is missing")
	case len(p.Path) > maxPath:
		return p.invalid("path", "a path has at most %d bytes", maxPath)
	case !utf8.ValidString(p.Path) || strings.ContainsFunc(p.Path, unicode.IsControl):
		return p.invalid("path", "a path is UTF-8 without control characters")
	}
	return nil
}

// road is the transport of all calls to a storage.
type road struct {
	answers  *http.Client // of package outgoing
	download bool         // answers may be objects
	sent     func(n int)  // is told of bytes of bodies; or nil
}

// sending is the body of a request. A transport may read on after it gave up, when a library
// that tries again has the same bytes read from their beginning already.
type sending struct {
	from io.ReadCloser
	sent func(n int) // or nil

	mu    sync.Mutex
	ended bool
}

var errEnded = errors.New("bucket: the request has ended")

// Read implements io.Reader.
func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, errEnded
	}
	n, err := s.from.Read(p)
	if s.sent != nil && n > 0 {
		s.sent(n)
	}
	return n, err
}

// Close implements io.Closer.
func (s *sending) Close() error { return s.from.Close() }

func (s *sending) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// body returns a request with a body that counts, and that can be ended.
func (r *road) body(request *http.Request) (*http.Request, func()) {
	body, again := &sending{from: request.Body, sent: r.sent}, request.GetBody
	request = request.Clone(request.Context())
	request.Body = body
	if again != nil {
		request.GetBody = func() (io.ReadCloser, error) {
			from, err := again()
			if err != nil {
				return nil, err
			}
			return &sending{from: from, sent: r.sent}, nil
		}
	}
	return request, body.end
}

// RoundTrip implements http.RoundTripper.
func (r *road) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.download {
		// As it is stored: GCS unpacks objects else, and then it cannot resume.
		request = request.Clone(request.Context())
		request.Header.Set("Accept-Encoding", "gzip")
	}
	if request.Body != nil && request.Body != http.NoBody {
		var end func()
		if request, end = r.body(request); request.GetBody == nil {
			defer end()
		}
	}
	response, err := r.answers.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if !r.download || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, nil
}
