// Package record keeps what was asked of a server and what it answered, a line of JSON for each
// request, so that a job that failed on another machine can be understood.
//
// No secret is in it, by rule and not by list of places:
//
//   - headers that authenticate, and cookies;
//   - parameters of OAuth and members of JSON whose name says so (…token, …secret, …password,
//     …assertion, code, …), in queries, forms and bodies, nested ones too;
//   - fields that the contract marks as secret;
//   - what was left out once, wherever it comes again: in a text, a path, a page;
//   - passwords in addresses, and private members of JWKs;
//   - whatever has the form of a private key, of a token of ours, or of a JWT.
//
// Of what is neither JSON nor a form only the size is kept.
package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

const (
	masked = "***"
	// maxBody is how much of a body is kept.
	maxBody = 256 << 10
	// maxKnown is how many secrets are remembered, the newest.
	maxKnown = 5000
	// shortest is how long a secret is to be left out wherever it is.
	shortest = 6
)

// Recorder writes a file. It is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	file  *os.File
	known []string
	seen  map[string]bool
}

// Create returns a Recorder that writes a new file, which only its owner reads.
func Create(path string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o600); err != nil { // it may have been there
		_ = file.Close()
		return nil, err
	}
	return &Recorder{file: file, seen: map[string]bool{}}, nil
}

// Close closes the file.
func (r *Recorder) Close() error { return r.file.Close() }

// Learn leaves secrets out wherever they are.
func (r *Recorder) Learn(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(secrets)
}

func (r *Recorder) learn(secrets []string) {
	for _, one := range secrets {
		if len(one) < shortest || r.seen[one] {
			continue
		}
		if len(r.known) == maxKnown {
			delete(r.seen, r.known[0])
			r.known = r.known[1:]
		}
		r.known, r.seen[one] = append(r.known, one), true
	}
}

type message struct {
	Headers map[string][]string `json:"headers,omitempty"`
	Body    any                 `json:"body,omitempty"`
	Bytes   int64               `json:"bytes"`
}

type line struct {
	Time    time.Time `json:"time"`
	Method  string    `json:"method"`
	URL     string    `json:"url"`
	Proto   string    `json:"proto"`
	Status  int       `json:"status"` // 0: the connection broke
	Request message   `json:"request"`
	Answer  message   `json:"answer"`
}

// Handler records what next serves.
func (r *Recorder) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked, answered := &kept{}, &exchange{ResponseWriter: w}
		if req.Body != nil {
			req.Body = &tee{req.Body, asked}
		}
		begun, head, at, method := time.Now().UTC(), req.Header.Clone(), *req.URL, req.Method
		host, protocol := req.Host, req.Proto
		defer func() {
			var m masker
			one := line{
				Time: begun, Method: method, Proto: protocol, Status: answered.status, URL: "http://" + host + m.url(&at),
				Request: message{m.headers(head), m.body(head, asked), asked.size},
				Answer:  message{m.headers(w.Header()), m.body(w.Header(), &answered.body), answered.body.size},
			}
			r.write(&one, m.secrets)
		}()
		next.ServeHTTP(answered, req)
	})
}

// forms are private keys, tokens of ours and JWTs.
var forms = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*|writ_[a-z]+_[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{8,}`)

func (r *Recorder) write(one *line, secrets []string) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(one) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learn(secrets)
	text := out.String()
	for _, known := range r.known {
		for _, spelled := range []string{known, quoted(known), url.QueryEscape(known), url.PathEscape(known)} {
			text = strings.ReplaceAll(text, spelled, masked)
		}
	}
	_, _ = r.file.WriteString(forms.ReplaceAllString(text, masked)) // a full disk is no reason to fail the command
}

// quoted is a text as it stands in the lines of the file.
func quoted(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a text always has a JSON form
	return strings.Trim(strings.TrimSpace(out.String()), `"`)
}

// masker leaves secrets out and remembers them.
type masker struct{ secrets []string }

func (m *masker) mask(value string) string {
	if value == "" {
		return ""
	}
	m.secrets = append(m.secrets, value)
	return masked
}

func (m *masker) headers(header http.Header) map[string][]string {
	shown := map[string][]string{}
	for name, values := range header {
		for _, value := range values {
			switch name {
			case "Authorization", "Proxy-Authorization":
				scheme, rest, _ := strings.Cut(value, " ")
				if plain, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "basic") {
					_, secret, _ := strings.Cut(string(plain), ":")
					m.mask(secret)
				}
				value = scheme + " " + m.mask(rest)
			case "Cookie", "Set-Cookie":
				_, rest, _ := strings.Cut(value, "=")
				first, _, _ := strings.Cut(rest, ";")
				m.mask(first)
				value = masked
			case "Location", "Referer":
				if at, err := url.Parse(value); err == nil {
					value = m.whole(at)
				} else {
					value = masked
				}
			}
			if isSecret(name) && !strings.HasPrefix(value, masked) && name != "Authorization" {
				value = m.mask(value)
			}
			shown[name] = append(shown[name], value)
		}
	}
	return shown
}

func (m *masker) whole(at *url.URL) string {
	clean := *at
	clean.RawQuery, clean.Fragment, clean.User = "", "", nil
	if password, ok := at.User.Password(); ok {
		m.mask(password)
	}
	text := clean.String()
	if at.RawQuery != "" {
		text += "?" + m.form(at.RawQuery)
	}
	if at.Fragment != "" {
		text += "#" + m.form(at.Fragment)
	}
	return text
}

func (m *masker) url(at *url.URL) string {
	if at.RawQuery == "" {
		return at.EscapedPath()
	}
	return at.EscapedPath() + "?" + m.form(at.RawQuery)
}

// form masks parameters where they are, so that the rest stays as it was sent.
func (m *masker) form(text string) string {
	pairs := strings.Split(text, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil || isSecret(plain) {
			if read, err := url.QueryUnescape(value); err == nil {
				m.mask(read)
			}
			pairs[i] = name + "=" + m.mask(value)
			continue
		}
		if read, err := url.QueryUnescape(value); err == nil { // an address to go on to, for example
			if clean := m.text(read); clean != read {
				pairs[i] = name + "=" + url.QueryEscape(clean)
			}
		}
	}
	return strings.Join(pairs, "&")
}

func (m *masker) body(header http.Header, body *kept) any {
	if body.size == 0 || body.size > maxBody || header.Get("Content-Encoding") != "" {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	isJSON := strings.HasSuffix(kind, "json") || bytes.HasPrefix(body.text.Bytes(), []byte("{")) || bytes.HasPrefix(body.text.Bytes(), []byte("["))
	switch {
	case !isJSON && kind == "application/x-www-form-urlencoded":
		return m.form(body.text.String())
	case isJSON: // whatever it is sent as: curl says that it is a form
		var value any
		decoder := json.NewDecoder(&body.text)
		decoder.UseNumber()
		if decoder.Decode(&value) == nil {
			return m.value(value, false)
		}
	}
	return nil
}

func (m *masker) value(value any, secret bool) any {
	switch value := value.(type) {
	case map[string]any:
		_, isKey := value["kty"] // a JWK
		for name, inner := range value {
			value[name] = m.value(inner, secret || isSecret(name) || isKey && privateMembers[name])
		}
	case []any:
		for i, inner := range value {
			value[i] = m.value(inner, secret)
		}
	case string:
		if secret {
			return m.mask(value)
		}
		return m.text(value)
	case json.Number:
		if secret {
			return m.mask(value.String())
		}
	}
	return value
}

// privateMembers are those of a JWK (RFC 7518, section 6).
var privateMembers = map[string]bool{"d": true, "p": true, "q": true, "dp": true, "dq": true, "qi": true, "oth": true, "k": true}

// text masks what is in a text that is something itself: an address, or JSON.
func (m *masker) text(value string) string {
	if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		var inner any
		decoder := json.NewDecoder(strings.NewReader(value))
		decoder.UseNumber()
		if decoder.Decode(&inner) == nil {
			if clean, err := json.Marshal(m.value(inner, false)); err == nil {
				return string(clean)
			}
		}
	}
	if at, err := url.Parse(value); err == nil && (at.Scheme != "" || strings.HasPrefix(value, "/")) && (at.RawQuery != "" || at.Fragment != "" || at.User != nil) {
		return m.whole(at)
	}
	return value
}

// isSecret reports whether what has that name is a secret.
func isSecret(name string) bool {
	name = folded(name)
	for _, end := range []string{
		"token", "secret", "password", "passwordagain", "passwd", "passphrase", "pwd", "assertion", "verifier", "cookie", "tokenhint", "apikey", "privatekey", "accesskey",
		"totpuri", "hash", "authorization", "pem",
	} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return name == "code" || name == "seed" || name == "keydetails" || name == "samlresponse" || contract()[name]
}

func folded(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// contract are the names of the fields that the contract marks as secret.
var contract = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	var walk func(protoreflect.MessageDescriptors)
	walk = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			fields := all.Get(i).Fields()
			for j := range fields.Len() {
				if secret, _ := proto.GetExtension(fields.Get(j).Options(), policyv1.E_Secret).(bool); secret {
					names[folded(string(fields.Get(j).Name()))] = true
				}
			}
			walk(all.Get(i).Messages())
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(file.Package()), "writ.") {
			walk(file.Messages())
		}
		return true
	})
	return names
})

// kept is a body, or that it was too long.
type kept struct {
	text bytes.Buffer
	size int64
}

func (k *kept) add(p []byte) {
	k.size += int64(len(p))
	if k.size <= maxBody {
		k.text.Write(p)
	}
}

type tee struct {
	io.ReadCloser
	to *kept
}

// Read implements io.Reader.
func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.to.add(p[:n])
	return n, err
}

type exchange struct {
	http.ResponseWriter
	status int
	body   kept
}

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(status int) {
	if status >= 200 {
		e.status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(p []byte) (int, error) {
	if e.status == 0 {
		e.status = http.StatusOK
	}
	e.body.add(p)
	return e.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, which gRPC asks for.
func (e *exchange) Flush() { _ = http.NewResponseController(e.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach the connection.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }
