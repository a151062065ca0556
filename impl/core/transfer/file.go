package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/wire"
)

// Version is that of the shape of files.
const Version = 1

// Writer writes a file as a stream: the items of each kind together, in the order of Kinds.
type Writer struct {
	to    *bufio.Writer
	kinds Kinds
	at    int // the kind whose list is open
	first bool
	text  []byte
	err   error
}

// NewWriter returns a writer, which has written the beginning.
func NewWriter(to io.Writer, kinds Kinds) *Writer {
	w := &Writer{to: bufio.NewWriterSize(to, 64<<10), kinds: kinds, at: -1}
	w.put(fmt.Sprintf(`{"version":%d`, Version))
	return w
}

func (w *Writer) put(text string) {
	if w.err == nil {
		_, w.err = w.to.WriteString(text)
	}
}

// open closes the lists before a kind's and opens that.
func (w *Writer) open(until int) {
	for w.at < until {
		if w.at >= 0 {
			w.put("]")
		}
		w.at++
		w.put(",\n\"" + w.kinds[w.at].Name + "\":[")
		w.first = true
	}
}

// Item writes an item of a kind, which does not come before that of the last one.
func (w *Writer) Item(kind *Kind, item Item) error {
	for w.at < 0 || w.kinds[w.at] != kind {
		if w.at+1 == len(w.kinds) {
			w.err = errors.Join(w.err, errOrder)
			return w.err
		}
		w.open(w.at + 1)
	}
	separator := ",\n"
	if w.first {
		separator, w.first = "\n", false
	}
	w.put(separator)
	w.text = item.AppendJSON(w.text[:0])
	if w.err == nil {
		_, w.err = w.to.Write(w.text)
	}
	return w.err
}

var errOrder = errors.New("transfer: an item of a kind whose list is closed")

// Close writes the end: what is not closed is not whole.
func (w *Writer) Close(summary *transferv1.Summary) error {
	w.open(len(w.kinds) - 1)
	w.put("],\n\"summary\":")
	w.put(string(summary.AppendJSON(nil)))
	w.put("}\n")
	return errors.Join(w.err, w.to.Flush())
}

// Reader reads a file as a stream.
type Reader struct {
	kinds   Kinds
	in      *json.Decoder
	budget  *budget
	kind    *Kind // whose list is open
	index   int
	begun   bool
	ended   bool
	said    bool // the version
	ignored func(member string)
}

const (
	// maxItem bounds an item, and so what is read at once.
	maxItem = 8 << 20
	// maxIgnored bounds how deep members nest that are passed over.
	maxIgnored = 10_000
)

// NewReader returns a reader, which tells what members of the file it does not know.
func NewReader(from io.Reader, kinds Kinds, ignored func(member string)) *Reader {
	b := &budget{from: from, left: maxItem}
	return &Reader{kinds: kinds, in: json.NewDecoder(b), budget: b, ignored: ignored}
}

// budget bounds how much is read for one item.
type budget struct {
	from io.Reader
	left int
}

var errItem = fault.Invalid("ITEM_TOO_LARGE", "", "something in the file has more than %d bytes", maxItem)

// Read implements io.Reader.
func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errItem
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// malformed says what is wrong with the text, where it is.
func (r *Reader) malformed(err error) error {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.Invalid("FILE_INCOMPLETE", r.where(), "the file ends in the middle, after %d bytes", r.in.InputOffset())
	}
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax {
		return fault.Invalid("MALFORMED_FILE", r.where(), "the file is not JSON: %s, about byte %d", err, r.in.InputOffset())
	}
	return err
}

func (r *Reader) where() string {
	if r.kind == nil {
		return ""
	}
	return fmt.Sprintf("%s[%d]", r.kind.Name, r.index)
}

func (r *Reader) token() (json.Token, error) {
	r.budget.left = maxItem
	token, err := r.in.Token()
	if err != nil {
		err = r.malformed(err)
	}
	return token, err
}

// Next implements Source.
func (r *Reader) Next(context.Context) (*Kind, Item, error) {
	for {
		if r.ended {
			return nil, nil, io.EOF
		}
		if r.kind == nil {
			if err := r.open(); err != nil {
				return nil, nil, err
			}
			continue
		}
		if r.in.More() {
			item, err := r.item()
			return r.kind, item, err
		}
		if _, err := r.token(); err != nil { // ]
			return nil, nil, err
		}
		r.kind = nil
	}
}

// open goes on to the next list that is known, or to the end.
func (r *Reader) open() error {
	if !r.begun {
		if err := r.want('{', "the file is no object"); err != nil {
			return err
		}
		r.begun = true
	}
	for {
		token, err := r.token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		switch {
		case !ok: // }
			r.ended = true
			if err := r.nothingBehind(); err != nil || r.said {
				return err
			}
			return fault.Invalid("UNKNOWN_VERSION", "version", "the file does not say its version; this server reads files of version %d", Version)
		case name == "version":
			err = r.version()
		case name == "summary":
			err = r.skip()
		default:
			if r.kind, r.index = r.kinds.Find(name), 0; r.kind != nil {
				return r.want('[', name+" is no list")
			}
			r.ignored(name)
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
}

func (r *Reader) want(delimiter json.Delim, otherwise string) error {
	token, err := r.token()
	if err == nil && token != delimiter {
		err = fault.Invalid("MALFORMED_FILE", "", "%s", otherwise)
	}
	return err
}

func (r *Reader) version() error {
	token, err := r.token()
	r.said = true
	if err == nil && token != float64(Version) {
		err = fault.Invalid("UNKNOWN_VERSION", "version", "this server reads files of version %d", Version)
	}
	return err
}

func (r *Reader) nothingBehind() error {
	r.budget.left = maxItem
	if _, err := r.in.Token(); !errors.Is(err, io.EOF) {
		return fault.Invalid("MALFORMED_FILE", "", "there is something after the end of the file")
	}
	return nil
}

// skip passes over a value of any size.
func (r *Reader) skip() error {
	for depth := 0; ; {
		token, err := r.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxIgnored {
				return fault.Invalid("TOO_DEEP", "", "the file nests too deep")
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// item reads an item, strictly.
func (r *Reader) item() (Item, error) {
	r.budget.left = maxItem
	var text json.RawMessage
	if err := r.in.Decode(&text); err != nil {
		return nil, r.malformed(err)
	}
	item := r.kind.New()
	err := wire.NewReader(bytes.TrimSpace(text), r.where()).Read(item)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		err = fault.Invalid(refusal.Reason, refusal.Field, "%s", refusal.Description)
	}
	r.index++
	return item, err
}
