package transfer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/klauspost/compress/zstd"
)

// Keys encrypt and decrypt files (age).
type Keys struct {
	Recipients []string // age1…
	Identity   string   // a file with the secret keys of recipients
	Passphrase string   // a file with a passphrase in its first line
}

// Encrypt reports whether files are encrypted.
func (k Keys) Encrypt() bool { return len(k.Recipients) > 0 || k.Passphrase != "" }

// recipients are whom a file is encrypted for; none when it is not encrypted.
func (k Keys) recipients() ([]age.Recipient, error) {
	if k.Passphrase != "" {
		if len(k.Recipients) > 0 {
			return nil, errors.New("--recipient and --passphrase-file exclude each other: age files have either")
		}
		passphrase, err := k.passphrase()
		if err != nil {
			return nil, err
		}
		recipient, err := age.NewScryptRecipient(passphrase)
		return []age.Recipient{recipient}, err
	}
	if len(k.Recipients) == 0 {
		return nil, nil
	}
	recipients, err := age.ParseRecipients(strings.NewReader(strings.Join(k.Recipients, "\n")))
	if err != nil {
		return nil, errors.New("--recipient: this is not the public key of an age identity (age1…), which age-keygen -y prints")
	}
	return recipients, nil
}

func (k Keys) identities() ([]age.Identity, error) {
	var identities []age.Identity
	if k.Identity != "" {
		file, err := os.Open(k.Identity)
		if err != nil {
			return nil, fmt.Errorf("--identity: %w", err)
		}
		defer file.Close()
		if identities, err = age.ParseIdentities(file); err != nil {
			return nil, fmt.Errorf("--identity: %s holds no identity of age (AGE-SECRET-KEY-…)", k.Identity)
		}
	}
	if k.Passphrase != "" {
		passphrase, err := k.passphrase()
		if err != nil {
			return nil, err
		}
		identity, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			return nil, err
		}
		identities = append(identities, identity)
	}
	if len(identities) == 0 {
		return nil, errors.New("the file is encrypted: give --identity or --passphrase-file")
	}
	return identities, nil
}

func (k Keys) passphrase() (string, error) {
	text, err := os.ReadFile(k.Passphrase)
	if err != nil {
		return "", fmt.Errorf("--passphrase-file: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("--passphrase-file: the first line of %s is empty", k.Passphrase)
	}
	return line, nil
}

// Output is a file that is there when Commit has returned, and not before.
type Output struct {
	io.Writer
	closers []io.Closer // from the outside in
	file    *os.File    // nil for standard output
	name    string
}

// Create makes a file, or writes to standard output (-). The end of its name says how it is
// compressed: .zst, .gz or not at all, with .age behind it when it is encrypted.
func Create(name string, keys Keys, stdout io.Writer) (*Output, error) {
	recipients, err := keys.recipients()
	if err != nil {
		return nil, err
	}
	plain, encrypted := strings.CutSuffix(name, ".age")
	if encrypted && len(recipients) == 0 {
		return nil, fmt.Errorf("%s is to be encrypted, says its name: give --recipient or --passphrase-file", name)
	}
	o := &Output{Writer: stdout, name: name}
	if name != "-" {
		if o.file, err = os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.part"); err != nil {
			return nil, fmt.Errorf("--output: %w", err)
		}
		o.Writer = o.file
	}
	if err := o.wrap(plain, recipients); err != nil {
		o.Discard()
		return nil, err
	}
	return o, nil
}

func (o *Output) wrap(name string, recipients []age.Recipient) error {
	if len(recipients) > 0 {
		sealed, err := age.Encrypt(o.Writer, recipients...)
		if err != nil {
			return err
		}
		o.add(sealed)
	}
	switch filepath.Ext(name) {
	case ".zst":
		packed, err := zstd.NewWriter(o.Writer)
		if err != nil {
			return err
		}
		o.add(packed)
	case ".gz":
		o.add(gzip.NewWriter(o.Writer))
	}
	return nil
}

func (o *Output) add(w io.WriteCloser) {
	o.Writer, o.closers = w, append([]io.Closer{w}, o.closers...)
}

// Commit ends the file and gives it its name.
func (o *Output) Commit() error {
	for _, one := range o.closers {
		if err := one.Close(); err != nil {
			return err
		}
	}
	o.closers = nil
	if o.file == nil {
		return nil
	}
	if err := o.file.Sync(); err != nil {
		return err
	}
	if err := o.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(o.file.Name(), o.name); err != nil {
		return err
	}
	o.file = nil
	return nil
}

// Discard leaves no file behind. After Commit it does nothing. What went to standard output by
// then does not look whole: compression and encryption have no end.
func (o *Output) Discard() {
	if o.file != nil {
		_ = o.file.Close()
		_ = os.Remove(o.file.Name())
		o.file = nil
	}
}

// layers is how deep a file may be wrapped: packed, encrypted, packed again.
const layers = 4

// Unwrap decrypts and unpacks what it finds, by content: names may lie.
func Unwrap(from io.Reader, keys Keys) (io.Reader, error) {
	for range layers {
		peek := bufio.NewReaderSize(from, 64<<10)
		from = peek
		head, err := peek.Peek(64)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		switch {
		case bytes.HasPrefix(head, []byte("age-encryption.org/")):
			from, err = decrypt(peek, keys)
		case bytes.HasPrefix(head, []byte(armor.Header)):
			from, err = decrypt(armor.NewReader(peek), keys)
		case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			from, err = zstd.NewReader(peek, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
			from, err = gzip.NewReader(peek)
		default:
			return peek, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the file is wrapped too often")
}

func decrypt(from io.Reader, keys Keys) (io.Reader, error) {
	identities, err := keys.identities()
	if err != nil {
		return nil, err
	}
	opened, err := age.Decrypt(from, identities...)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, errors.New("the file is encrypted for somebody else, or with another passphrase")
	}
	return opened, err
}

// object passes one object of JSON on and refuses what is more or less: it becomes a member
// of the request, and must not bring members of its own.
type object struct {
	from                  io.Reader
	depth                 int
	text, escaped, closed bool
	err                   error
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.from.Read(p)
	for i, char := range p[:n] {
		if o.err = o.step(char); o.err != nil {
			return i, o.err
		}
	}
	if errors.Is(err, io.EOF) && !o.closed {
		err = errors.New("the file ends in the middle")
	}
	o.err = err
	return n, err
}

func (o *object) step(char byte) error {
	switch {
	case o.text && o.escaped:
		o.escaped = false
	case o.text:
		o.escaped, o.text = char == '\\', char != '"'
	case char == ' ' || char == '\t' || char == '\n' || char == '\r':
	case o.closed:
		return errors.New("there is something behind the end of the object in the file")
	case o.depth == 0 && char != '{':
		return errors.New("this is no file of an export: it has to be an object of JSON, which may be packed (.zst, .gz) and encrypted (.age)")
	case char == '"':
		o.text = true
	case char == '{' || char == '[':
		o.depth++
	case char == '}' || char == ']':
		o.depth--
		o.closed = o.depth == 0
	}
	return nil
}
