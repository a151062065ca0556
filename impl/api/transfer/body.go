package transfer

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/spool"
)

// What is imported can be long, so it is put into a file as it comes: who sends slowly holds
// its connection and room on the disk, and nothing else (SEC-290).
const (
	// maxMember bounds what is not the data.
	maxMember = 64 << 10
	// dataMember is the data in the body.
	dataMember = "data_orgsv1"
)

// upload is the body of an import.
type upload struct {
	file *spool.File
	rest []byte            // the body without the data, as JSON
	data *io.SectionReader // nil when there is none
}

// Close gives back the room on the disk.
func (u *upload) Close() error { return u.file.Close() }

// receive reads the body of an import.
func (s *Service) receive(w http.ResponseWriter, r *http.Request, tenant string) (*upload, error) {
	limit := min(maxImport, s.Space.Share())
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	file, err := s.Space.New(tenant)
	if err != nil {
		return nil, err
	}
	u := &upload{file: file}
	if err = u.fill(w, r, limit); err == nil {
		err = u.parse()
	}
	if err != nil {
		_ = u.Close()
		return nil, err
	}
	return u, nil
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "REQUEST_TOO_LARGE", "an import may have %d bytes at most", limit)
}

func (u *upload) fill(w http.ResponseWriter, r *http.Request, limit int64) error {
	wire := http.NewResponseController(w)
	buffer := make([]byte, 64<<10)
	steps := &steps{begun: func() error { return wire.SetReadDeadline(time.Now().Add(stepTime)) }}
	for size := int64(0); ; {
		if err := steps.went(0); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		n, err := r.Body.Read(buffer)
		if size += int64(n); size > limit {
			return tooLarge(limit)
		}
		if err := steps.went(n); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if n > 0 {
			if _, err := u.file.Write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fault.New(fault.TooSlow, "BODY_TIMEOUT", "the body of the request did not arrive in time: a MiB of it may take %s", stepTime)
		case err != nil:
			return fault.New(fault.Canceled, "CANCELED", "the request was broken off").Because(err)
		}
	}
}

// parse finds the data in the body.
func (u *upload) parse() error {
	size := u.file.Size() // what is appended to the file is not the body
	s := &scanner{in: bufio.NewReaderSize(io.NewSectionReader(u.file, 0, size), 64<<10)}
	rest, seen := []byte{'{'}, map[string]bool{}
	s.expect('{')
	for first := true; s.err == nil; first = false {
		if s.space(); s.peek() == '}' && first {
			s.next()
			break
		}
		name := s.member()
		if name = snake(name); s.err == nil && seen[name] {
			return fault.Invalid("MALFORMED_REQUEST", name, "is there twice")
		}
		seen[name] = true
		s.expect(':')
		s.space()
		from := s.at
		if name == dataMember && (s.peek() == '{' || s.peek() == '"') {
			text := s.peek() == '"'
			s.keep = nil
			s.value()
			u.data = io.NewSectionReader(u.file, from, s.at-from)
			if text && s.err == nil {
				var err error
				if u.data, err = u.unescape(from+1, s.at-1); err != nil {
					return err
				}
			}
		} else {
			s.keep = []byte{}
			s.value()
			if len(rest) > 1 {
				rest = append(rest, ',')
			}
			rest = append(append(append(rest, strconv.Quote(name)...), ':'), s.keep...)
			s.keep = nil
		}
		if s.space(); s.peek() == '}' {
			s.next()
			break
		}
		s.expect(',')
	}
	if s.space(); s.err == nil && !s.ended() {
		s.fail("there is something after the JSON object")
	}
	rest = append(rest, '}')
	u.rest = rest
	return s.err
}

// scanner finds where values of JSON end; what is in them others read.
type scanner struct {
	in   *bufio.Reader
	at   int64
	keep []byte // what is passed over, if not nil
	err  error
}

func (s *scanner) fail(what string) {
	if s.err == nil {
		s.err = fault.Invalid("MALFORMED_REQUEST", "", "the body is not a JSON object: %s, at byte %d", what, s.at)
	}
}

func (s *scanner) peek() byte {
	if s.err != nil {
		return 0
	}
	next, err := s.in.Peek(1)
	if err != nil {
		return 0
	}
	return next[0]
}

func (s *scanner) ended() bool {
	_, err := s.in.Peek(1)
	return errors.Is(err, io.EOF)
}

func (s *scanner) next() byte {
	if s.err != nil {
		return 0
	}
	c, err := s.in.ReadByte()
	if err != nil {
		s.fail("it ends in the middle")
		return 0
	}
	s.at++
	if s.keep != nil {
		if s.keep = append(s.keep, c); len(s.keep) > maxMember {
			s.fail("a member is too long")
		}
	}
	return c
}

func (s *scanner) space() {
	for {
		switch s.peek() {
		case ' ', '\t', '\r', '\n':
			s.next()
		default:
			return
		}
	}
}

func (s *scanner) expect(c byte) {
	if s.space(); s.next() != c {
		s.fail("there has to be a " + strconv.QuoteRune(rune(c)))
	}
}

// member reads the name of a member.
func (s *scanner) member() string {
	s.space()
	s.keep = []byte{}
	s.text()
	var name string
	if err := json.Unmarshal(s.keep, &name); err != nil {
		s.fail("the name of a member is no text")
	}
	s.keep = nil
	return name
}

func (s *scanner) text() {
	if s.next() != '"' {
		s.fail("there has to be a text")
	}
	for s.err == nil {
		switch s.next() {
		case '\\':
			s.next()
		case '"':
			return
		}
	}
}

// value passes over a value.
func (s *scanner) value() {
	for depth := 0; s.err == nil; {
		switch c := s.peek(); {
		case c == '"':
			s.text()
		case c == '{' || c == '[':
			s.next()
			depth++
			continue
		case c == '}' || c == ']':
			if depth == 0 {
				s.fail("a value is missing")
				return
			}
			s.next()
			depth--
		case depth == 0: // a number or a word
			from := s.at
			for c := s.peek(); c > ' ' && c != ',' && c != '}' && c != ']'; c = s.peek() {
				s.next()
			}
			if s.at == from {
				s.fail("a value is missing")
			}
			return
		default:
			s.next()
			continue
		}
		if depth == 0 {
			return
		}
	}
}

// unescape returns what a text of JSON between two places says.
func (u *upload) unescape(from, to int64) (*io.SectionReader, error) {
	size := u.file.Size()
	in, out := bufio.NewReaderSize(io.NewSectionReader(u.file, from, to-from), 64<<10), bufio.NewWriterSize(u.file, 64<<10)
	bad := fault.Invalid("MALFORMED_REQUEST", dataMember, "is not a text of JSON")
	written := int64(0)
	put := func(text []byte) error {
		n, err := out.Write(text)
		written += int64(n)
		return err
	}
	for {
		c, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		text := []byte{c}
		switch {
		case c < ' ':
			return nil, bad
		case c == '\\':
			if text = escaped(in); text == nil {
				return nil, bad
			}
		}
		if err := put(text); err != nil {
			return nil, err
		}
	}
	if err := out.Flush(); err != nil {
		return nil, err
	}
	return io.NewSectionReader(u.file, size, written), nil
}

// escapes are what follows a backslash, but for u.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads what follows a backslash; nil when that is nothing.
func escaped(in *bufio.Reader) []byte {
	c, err := in.ReadByte()
	if err != nil {
		return nil
	}
	if c != 'u' {
		if plain, ok := escapes[c]; ok {
			return []byte{plain}
		}
		return nil
	}
	r, ok := unit(in)
	if !ok {
		return nil
	}
	if utf16.IsSurrogate(r) {
		next, err := in.Peek(6)
		if err != nil || next[0] != '\\' || next[1] != 'u' {
			return nil
		}
		_, _ = in.Discard(2) // it was peeked at
		low, ok := unit(in)
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return nil
		}
	}
	return utf8.AppendRune(nil, r)
}

// unit reads the four digits of a code unit.
func unit(in *bufio.Reader) (rune, bool) {
	digits := make([]byte, 4)
	if _, err := io.ReadFull(in, digits); err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 16, 16)
	return rune(n), err == nil
}
