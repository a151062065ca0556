// Package compress makes whole answers shorter: by zstd or gzip, as the client
// accepts (RFC 9110, section 12.5.3).
//
// What it is used for is decided by who serves: never for answers that hold a secret
// next to text that somebody else chooses and whose request a foreign page can cause,
// because their length would tell the secret (BREACH).
package compress

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Least is the size below which an answer stays as it is: it fits into a packet.
const Least = 1024

// Encoding is a content coding; "" is none.
type Encoding string

// The encodings, the better one first.
const (
	Zstd Encoding = "zstd"
	Gzip Encoding = "gzip"
)

// Accepted returns the encoding to use for a request: the one it prefers, zstd among
// equals.
func Accepted(header http.Header) Encoding {
	best, most := Encoding(""), 0.0
	for _, list := range header["Accept-Encoding"] {
		for item := range strings.SplitSeq(list, ",") {
			name, parameter, _ := strings.Cut(item, ";")
			weight := 1.0
			if value, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
				var err error
				if weight, err = strconv.ParseFloat(value, 64); err != nil {
					weight = 0
				}
			}
			e := Encoding(strings.ToLower(strings.TrimSpace(name)))
			if e != Zstd && e != Gzip {
				continue
			}
			if weight > most || weight == most && weight > 0 && e == Zstd {
				best, most = e, weight
			}
		}
	}
	return best
}

// encoder compresses what is the answer to one request; it may be used by many at
// once.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	// The options are constants that fit together, so this cannot fail.
	made, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
	return made
})

var writers = sync.Pool{New: func() any {
	made, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails on a level that is none
	return made
}}

// Body returns a body in an encoding, made fast.
func (e Encoding) Body(plain []byte) []byte {
	if e == Zstd {
		return encoder().EncodeAll(plain, make([]byte, 0, len(plain)/3))
	}
	var b bytes.Buffer
	b.Grow(len(plain) / 3)
	w := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	w.Reset(&b)
	_, _ = w.Write(plain) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// Prepared is a body that is served many times, compressed well and once.
type Prepared struct {
	Plain []byte
	once  [2]sync.Once
	made  [2][]byte
}

// In returns the body in an encoding.
func (p *Prepared) In(e Encoding) []byte {
	switch e {
	case Zstd:
		p.once[0].Do(func() {
			best, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
			p.made[0] = best.EncodeAll(p.Plain, nil)
		})
		return p.made[0]
	case Gzip:
		p.once[1].Do(func() {
			var b bytes.Buffer
			w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
			_, _ = w.Write(p.Plain)
			_ = w.Close()
			p.made[1] = b.Bytes()
		})
		return p.made[1]
	}
	return p.Plain
}

// Serve answers with the body in the encoding that the request accepts. The header
// has the type, and may have the strong entity tag of the plain body, which gets the
// name of the encoding: If-None-Match, HEAD and ranges are about what is sent.
func (p *Prepared) Serve(w http.ResponseWriter, r *http.Request) { serve(w, r, len(p.Plain), p.In) }

// Serve is Prepared.Serve for a body that differs from answer to answer.
func Serve(w http.ResponseWriter, r *http.Request, body []byte) {
	serve(w, r, len(body), func(e Encoding) []byte {
		if e == "" {
			return body
		}
		return e.Body(body)
	})
}

func serve(w http.ResponseWriter, r *http.Request, length int, in func(Encoding) []byte) {
	header := w.Header()
	header.Add("Vary", "Accept-Encoding")
	e := Encoding("")
	if length >= Least {
		e = Accepted(r.Header)
	}
	if e != "" {
		header.Set("Content-Encoding", string(e))
		if etag := header.Get("ETag"); etag != "" {
			header.Set("ETag", strings.TrimSuffix(etag, `"`)+"-"+string(e)+`"`)
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(in(e)))
}
