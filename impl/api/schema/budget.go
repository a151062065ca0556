package schema

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A short schema may make much work of little data: schemas that refer to others
// twice double it with each step (SEC-221, SEC-293). So the work is bounded, not the
// length: what a schema comes to when its references are followed, when it is
// compiled, and what is done for a value, while it is done.
const (
	maxObjects         = 1_500   // in the text of a schema
	maxExpanded        = 10_000  // schemas, each counted as often as something refers to it
	maxChain           = 64      // schemas that apply to one value because one refers to the next
	maxPattern         = 500     // bytes of a pattern
	maxInstructions    = 2_000   // of the program that it comes to
	maxAllInstructions = 20_000  // of all
	maxMatched         = 4 << 10 // bytes of a text that has to match one
	maxWork            = 200_000 // steps for a value, each a microsecond at most
)

var errTooMuchWork = fmt.Errorf("to check this against its schema takes more than %d steps", maxWork)

// edges are the schemas that a schema refers to, by what they apply to.
type edges struct {
	same    []*jsonschema.Schema // the value itself
	members []*jsonschema.Schema // one member or item of it
	each    []*jsonschema.Schema // each of them
}

func (e *edges) all() []*jsonschema.Schema {
	return append(append(append([]*jsonschema.Schema{}, e.same...), e.members...), e.each...)
}

func edgesOf(s *jsonschema.Schema) *edges {
	e := &edges{}
	add := func(to *[]*jsonschema.Schema, some ...*jsonschema.Schema) {
		for _, one := range some {
			if one != nil {
				*to = append(*to, one)
			}
		}
	}
	add(&e.same, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		add(&e.same, s.DynamicRef.Ref)
	}
	add(&e.same, s.AllOf...)
	add(&e.same, s.AnyOf...)
	add(&e.same, s.OneOf...)
	for _, one := range s.DependentSchemas {
		add(&e.same, one)
	}
	for _, one := range s.Dependencies {
		one, _ := one.(*jsonschema.Schema)
		add(&e.same, one)
	}
	for _, one := range s.Properties {
		add(&e.members, one)
	}
	add(&e.members, s.PrefixItems...)
	for _, one := range s.PatternProperties {
		add(&e.each, one)
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	add(&e.each, s.PropertyNames, additional, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
	return e
}

// bound is what a schema was found to come to.
type bound struct {
	schemas map[*jsonschema.Schema]*size
	next    []*jsonschema.Schema // of parts of values, to be looked at
	meter   *meter
}

type size struct {
	known bool
	chain int // the longest chain of references from it
	total int // the schemas that it expands to
}

// limit refuses a compiled schema that comes to too much, naming the place in it, and
// makes what is left meter its work.
func limit(root *jsonschema.Schema) (*meter, error) {
	b := &bound{schemas: map[*jsonschema.Schema]*size{}, next: []*jsonschema.Schema{root}, meter: &meter{}}
	for len(b.next) > 0 {
		s := b.next[0]
		b.next = b.next[1:]
		if err := b.chains(s); err != nil {
			return nil, err
		}
	}
	for s := range b.schemas {
		b.schemas[s].known = false
	}
	if _, err := b.expand(root); err != nil {
		return nil, err
	}
	for s := range b.schemas {
		b.meter.attach(s)
	}
	return b.meter, nil
}

// chains finds the schemas that apply to the same value and how long their chains of
// references are.
func (b *bound) chains(s *jsonschema.Schema) error {
	if found := b.schemas[s]; found != nil {
		if !found.known {
			return fmt.Errorf("%s: the schema refers to itself", place(s))
		}
		return nil
	}
	if strings.HasPrefix(s.Location, metaschemas) {
		return fmt.Errorf("%s is outside of the schema", s.Location)
	}
	found := &size{}
	b.schemas[s] = found
	e := edgesOf(s)
	for _, next := range e.same {
		if err := b.chains(next); err != nil {
			return err
		}
		found.chain = max(found.chain, b.schemas[next].chain+1)
	}
	if found.chain > maxChain {
		return fmt.Errorf("%s: more than %d schemas refer to each other in a row", place(s), maxChain)
	}
	found.known = true
	b.next = append(append(b.next, e.members...), e.each...)
	return nil
}

// expand counts what a schema comes to. One within itself, as in a tree, counts once:
// how deep the value goes is bounded elsewhere.
func (b *bound) expand(s *jsonschema.Schema) (int, error) {
	found := b.schemas[s]
	if found.known {
		return found.total, nil
	}
	found.known, found.total = true, 1
	total := 1
	for _, next := range edgesOf(s).all() {
		of, err := b.expand(next)
		if err != nil {
			return 0, err
		}
		if total += of; total > maxExpanded {
			return 0, fmt.Errorf("%s: the schema comes to more than %d schemas, with all that it refers to", place(s), maxExpanded)
		}
	}
	found.total = total
	return total, nil
}

// place says where in its document a schema stands.
func place(s *jsonschema.Schema) string {
	_, pointer, _ := strings.Cut(s.Location, "#")
	return "#" + pointer
}

// meter counts the work that is done for one value.
type meter struct {
	ctx  context.Context
	left int
	err  error // why no more is done
}

// spend takes some steps. The time is looked at now and then.
func (m *meter) spend(steps int) error {
	const often = 1 << 10
	if m.err != nil {
		return m.err
	}
	if m.left/often != (m.left-steps)/often {
		m.err = m.ctx.Err()
	}
	if m.left -= steps; m.left < 0 {
		m.err = errTooMuchWork
	}
	return m.err
}

// attach makes a schema spend what it costs. The library asks for the format of each
// value before it follows any reference, so that nothing is done any more when the
// meter says no; what is decided before, a type or a list of values, the schema that
// led there has paid for.
func (m *meter) attach(s *jsonschema.Schema) {
	e, inner, name := edgesOf(s), s.Format, "value"
	if inner != nil {
		name = inner.Name
	}
	once, each := 1+cost(e.same)+cost(e.members), cost(e.each)
	s.Format = &jsonschema.Format{Name: name, Validate: func(value any) error {
		steps, text := once, ""
		switch value := value.(type) {
		case string:
			text = value
		case []any:
			steps += len(value) * (1 + each)
			if s.UniqueItems {
				steps += len(value) * min(len(value), 20)
			}
		case map[string]any:
			steps += len(value) * (1 + each)
			for regex := range s.PatternProperties {
				for name := range value {
					if err := m.match(regex.(*pattern), name); err != nil {
						return err
					}
				}
			}
		}
		if err := m.spend(steps + len(text)/64); err != nil {
			return err
		}
		if s.Pattern != nil {
			if err := m.match(s.Pattern.(*pattern), text); err != nil {
				return err
			}
		}
		if inner == nil {
			return nil
		}
		return inner.Validate(value)
	}}
}

// cost is what it takes to look at schemas, before they look at anything themselves.
func cost(schemas []*jsonschema.Schema) int {
	sum := len(schemas)
	for _, s := range schemas {
		if s.Enum != nil {
			sum += len(s.Enum.Values)
		}
	}
	return sum
}

// match spends what it takes to match a text.
func (m *meter) match(p *pattern, text string) error {
	if len(text) > maxMatched {
		m.err = fmt.Errorf("a text of more than %d bytes is held against no pattern", maxMatched)
		return m.err
	}
	return m.spend(1 + len(text)*p.instructions/64)
}

// pattern is a regular expression that takes time in proportion to its length and to
// that of the text (RE2).
type pattern struct {
	*regexp.Regexp
	instructions int
}

// patterns are those of a schema, and of data that has to be one.
type patterns struct {
	known        map[string]*pattern
	instructions int
}

var errPattern = errors.New("the pattern is too long")

// compile is the engine of a jsonschema.Compiler, which asks for each pattern more
// than once.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known := p.known[text]; known != nil {
		return known, nil
	}
	if len(text) > maxPattern {
		return nil, fmt.Errorf("%w: it may have %d bytes", errPattern, maxPattern)
	}
	if p.instructions > maxAllInstructions {
		return nil, errors.New("the patterns are too long together")
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	p.instructions += len(program.Inst)
	if len(program.Inst) > maxInstructions {
		return nil, fmt.Errorf("%w with its repetitions written out", errPattern)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p.known[text] = &pattern{compiled, len(program.Inst)}
	return p.known[text], nil
}
