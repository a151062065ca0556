// Package foreign reads what other systems export as what we import: the messages of
// writ.transfer.v1, one after the other, in memory that does not grow with the file.
//
// Nothing that is read gets lost in silence: it is in an item, or Options.Lost is told
// of it. What is not in the shape that the other system documents (a number where a text
// belongs) is an error with its place in the file; what we have no place for, or the
// contract does not take, is reported, and the rest goes on.
//
// The files are not trusted: what is held of them at once is bounded, and so is how deep
// they are nested.
package foreign

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/transfer"
)

// Options say what a file does not.
type Options struct {
	// OrgID is the organization that things come into. It may be left out for files that
	// have organizations, or something like one: a realm of Keycloak.
	OrgID string
	// OrgName is its name, when it is to be made.
	OrgName string
	// Lost is told of what is not carried over: the list that it would be in or what the
	// file calls it, its ID or "", and why. What happens many times alike is told of once,
	// with how often, at the end.
	Lost func(kind, id, reason string)
	// Ignored is told at the end of members of the file that mean nothing here, each once, with
	// how often it is there. Without it they are lost.
	Ignored func(member string, times int)
	// Firebase are the parameters of a project's password hashes.
	Firebase *FirebaseScrypt
}

// formats are the systems whose exports can be read.
var formats = map[string]func(io.ReadSeeker, Options) (transfer.Source, error){
	"zitadel":  func(r io.ReadSeeker, o Options) (transfer.Source, error) { return Zitadel(r, o), nil },
	"keycloak": Keycloak,
	"auth0":    Auth0,
	"firebase": Firebase,
	"csv":      CSV,
}

// Formats returns the names of the systems whose exports Open reads.
func Formats() []string {
	var names []string
	for name := range formats {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Open reads the export of a system. The file is read as it is asked for, by some of
// them twice.
func Open(format string, file io.ReadSeeker, options Options) (transfer.Source, error) {
	open, ok := formats[format]
	if !ok {
		return nil, fmt.Errorf("there is no format %q; there are %s", format, strings.Join(Formats(), ", "))
	}
	return open(file, options)
}

// reading is what all sources are made of: values of the file come in, messages go out.
type reading struct {
	Options
	walker *walker        // of JSON
	handle func(at visit) // a value of it
	step   func() error   // reads on; io.EOF at the end
	finish func()         // what is known in the end only
	queue  []entry        // what was read and not yet asked for
	err    error
	ended  bool
	alike  map[loss]int
	order  []loss
}

type loss struct{ kind, reason string }

type entry struct {
	kind *transfer.Kind
	item transfer.Item
}

func newReading(options Options) *reading {
	lost := options.Lost
	options.Lost = func(kind, id, reason string) {
		if lost != nil { // much of these comes from the file
			lost(short(kind), short(id), short(reason))
		}
	}
	r := &reading{Options: options, alike: map[loss]int{}}
	r.step = func() error {
		at, err := r.walker.next()
		if err == nil {
			r.handle(at)
		}
		return err
	}
	return r
}

// Next implements transfer.Source.
func (r *reading) Next(ctx context.Context) (*transfer.Kind, transfer.Item, error) {
	for {
		switch {
		case r.err != nil:
			return nil, nil, r.err
		case len(r.queue) > 0:
			next := r.queue[0]
			r.queue[0] = entry{}
			if r.queue = r.queue[1:]; len(r.queue) == 0 {
				r.queue = nil
			}
			return next.kind, next.item, nil
		case r.ended:
			return nil, nil, io.EOF
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		}
		if err := r.step(); errors.Is(err, io.EOF) {
			if r.ended = true; r.finish != nil {
				r.finish()
			}
			r.tell()
		} else if err != nil && r.err == nil {
			r.err = err
		}
	}
}

// maxLine bounds a line of a report, in bytes.
const maxLine = 4000

func short(text string) string {
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	return text
}

// refuse keeps the first thing that is wrong with the file.
func (r *reading) refuse(path, format string, a ...any) {
	if r.err == nil {
		r.err = malformed(path, format, a...)
	}
}

// maxAlike bounds how many kinds of what happens many times are told apart.
const maxAlike = 1000

// often reports something that may happen for every object of the file: once.
func (r *reading) often(kind, reason string) {
	of := loss{kind, reason}
	if _, known := r.alike[of]; !known && len(r.order) >= maxAlike {
		of = loss{"", fmt.Sprintf("something else that is not carried over, beyond %d kinds of it", maxAlike)}
	}
	if r.alike[of]++; r.alike[of] == 1 {
		r.order = append(r.order, of)
	}
}

func (r *reading) unknown(pattern string) {
	r.often(pattern, nowhere)
}

// nowhere is why a member is ignored.
const nowhere = "there is no place for it"

func (r *reading) tell() {
	for _, of := range r.order {
		if of.reason == nowhere && r.Ignored != nil {
			r.Ignored(of.kind, r.alike[of])
			continue
		}
		reason := of.reason
		if n := r.alike[of]; n > 1 {
			reason = fmt.Sprintf("%s (%d times)", reason, n)
		}
		r.Lost(of.kind, "", reason)
	}
}

// organization sees to the organization of a file that has none: it goes into the queue
// if it is to be made.
func (r *reading) organization() error {
	if r.OrgID == "" && r.OrgName == "" {
		return errors.New("the file has no organization: say into which its users go, by the ID of one that there is, or a name for a new one")
	}
	if r.OrgID == "" {
		r.OrgID = derived("organization", r.OrgName)
	}
	if r.OrgName != "" {
		r.put("organizations", r.OrgID, &transferv1.TransferOrganization{Id: r.OrgID, Name: r.OrgName})
	}
	return nil
}

// derived makes an ID of what names a thing where it comes from, so that it is the same
// each time the file is read.
func derived(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s ", len(part), part)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:15]))
}

// either returns the first that is not empty.
func either(texts ...string) string { return cmp.Or(texts...) }
