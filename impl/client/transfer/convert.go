package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	core "github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

// From says what another system exported.
type From struct {
	Format  string // of foreign.Formats; "" is a file of our own
	OrgID   string
	OrgName string
	// FirebaseHash is a file with the parameters of password hashes, as Firebase's console
	// shows them.
	FirebaseHash string

	lost    []*transferv1.Lost
	losses  uint64
	ignored []string
}

// maxLost is how much of what is lost is told one by one, as the server does.
const maxLost = 1000

// convert reads what another system exported as one of our files. Some files are read twice,
// so what cannot be is kept in a file of its own first.
func (f *From) convert(ctx context.Context, file io.Reader) (io.ReadCloser, error) {
	options := foreign.Options{
		OrgID: f.OrgID, OrgName: f.OrgName,
		Lost: func(kind, id, reason string) {
			if f.losses++; len(f.lost) < maxLost {
				f.lost = append(f.lost, &transferv1.Lost{Kind: kind, Id: id, Reason: "NOT_CONVERTED", Message: reason})
			}
		},
		Ignored: func(member string, times int) {
			if len(f.ignored) < maxLost {
				f.ignored = append(f.ignored, fmt.Sprintf("%s (%d times)", member, times))
			}
		},
	}
	if f.FirebaseHash != "" {
		var err error
		if options.Firebase, err = firebaseHash(f.FirebaseHash); err != nil {
			return nil, err
		}
	}
	kept, err := keep(file)
	if err != nil {
		return nil, err
	}
	source, err := foreign.Open(f.Format, kept, options)
	if err != nil {
		_ = kept.Close()
		return nil, fmt.Errorf("--from %s: %w", f.Format, err)
	}
	from, to := io.Pipe()
	c := &conversion{PipeReader: from, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		defer kept.Close()
		_ = to.CloseWithError(write(ctx, source, to))
	}()
	return c, nil
}

// conversion is what comes of a file of another system.
type conversion struct {
	*io.PipeReader
	ended chan struct{}
}

// Close ends the conversion: then all is known that was lost.
func (c *conversion) Close() error {
	err := c.PipeReader.Close()
	<-c.ended
	return err
}

// write writes items in the order in which they come: a list may be there more than once.
func write(ctx context.Context, source core.Source, to io.Writer) error {
	out := bufio.NewWriterSize(to, 64<<10)
	fmt.Fprintf(out, `{"version":%d`, core.Version)
	var open *core.Kind
	var text []byte
	for {
		kind, item, err := source.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if kind == open {
			_ = out.WriteByte(',')
		} else {
			if open != nil {
				_ = out.WriteByte(']')
			}
			fmt.Fprintf(out, ",\n%q:[", kind.Name)
			open = kind
		}
		text = item.AppendJSON(text[:0])
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	if open != nil {
		_ = out.WriteByte(']')
	}
	_ = out.WriteByte('}')
	return out.Flush()
}

// keep keeps what is read in a file that has no name.
func keep(from io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "writ-import-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(file.Name())
	if _, err = io.Copy(file, from); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// report adds what was lost on the way to what the server says.
func (f *From) report(report *Report) *Report {
	if f.losses == 0 && len(f.ignored) == 0 {
		return report
	}
	if report == nil {
		report = &Report{}
	}
	report.NotCarried = slices.Concat(f.lost, report.GetNotCarried())
	report.TotalNotCarried += f.losses
	report.Ignored = slices.Concat(f.ignored, report.GetIgnored())
	return report
}

var hashParameter = regexp.MustCompile(`(\w+)"?\s*[:=]\s*"?([^",\s}]+)`)

// firebaseHash reads parameters as the console shows them, which is not quite JSON.
func firebaseHash(path string) (*foreign.FirebaseScrypt, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--firebase-hash: %w", err)
	}
	values := map[string]string{}
	for _, found := range hashParameter.FindAllStringSubmatch(string(text), -1) {
		values[strings.ToLower(found[1])] = found[2]
	}
	scrypt := &foreign.FirebaseScrypt{SignerKey: values["base64_signer_key"], SaltSeparator: values["base64_salt_separator"]}
	scrypt.Rounds, err = strconv.Atoi(values["rounds"])
	if err == nil {
		scrypt.MemoryCost, err = strconv.Atoi(values["mem_cost"])
	}
	if err != nil || scrypt.SignerKey == "" {
		return nil, fmt.Errorf("--firebase-hash: %s does not hold base64_signer_key, base64_salt_separator, rounds and mem_cost, as the console shows them under password hash parameters", path)
	}
	return scrypt, nil
}
