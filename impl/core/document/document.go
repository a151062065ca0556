// Package document holds what is sent to the schemas of an OpenAPI document.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/writ-id/writ/impl/core/fault"
)

// Schemas are those of a document, each read when it is first asked for.
type Schemas struct {
	text []byte
	mu   sync.Mutex
	read map[string]*jsonschema.Schema
}

// Of returns the schemas of a document in JSON.
func Of(text []byte) *Schemas { return &Schemas{text: text, read: map[string]*jsonschema.Schema{}} }

// of returns the schema of that name. What OpenAPI 3.0 says otherwise than JSON Schema
// (nullable, for one) the documents that requests are held to do without.
func (s *Schemas) of(name string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.read[name]; known != nil {
		return known, nil
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		return nil, err
	}
	s.read[name], err = compiler.Compile("openapi.json#/components/schemas/" + name)
	return s.read[name], err
}

// Decode reads a request and holds it to the schema of that name.
func (s *Schemas) Decode(name string, text []byte, into any) error {
	known, err := s.of(name)
	if err != nil {
		return err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	var value any
	if err := in.Decode(&value); err != nil {
		return fault.Invalid("MALFORMED_REQUEST", "", "the request needs a JSON body: %v", err)
	}
	if in.More() {
		return fault.Invalid("MALFORMED_REQUEST", "", "there is something after the JSON value")
	}
	if err := known.Validate(value); err != nil {
		return broken(err)
	}
	return json.Unmarshal(text, into)
}

// broken is the refusal of what a schema does not allow: of the first place, by name, where
// something is wrong.
func broken(err error) error {
	found, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fault.Invalid("INVALID_FIELD", "", "%v", err)
	}
	for len(found.Causes) > 0 {
		found = slices.MinFunc(found.Causes, func(a, b *jsonschema.ValidationError) int {
			return slices.Compare(a.InstanceLocation, b.InstanceLocation)
		})
	}
	at := func(more ...string) string { return strings.Join(slices.Concat(found.InstanceLocation, more), ".") }
	switch what := found.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return fault.Invalid("UNKNOWN_FIELD", at(slices.Min(what.Properties)), "there is no such field")
	case *kind.Required:
		return fault.Invalid("INVALID_FIELD", at(what.Missing[0]), "is missing")
	}
	return fault.Invalid("INVALID_FIELD", at(), "%s", found.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
}
