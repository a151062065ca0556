// Package document holds what is sent to the schemas of an OpenAPI document.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/writ-id/writ/impl/core/fault"
)

// Schemas are those of a document, read when one is first asked for.
type Schemas func() (openapi3.Schemas, error)

// Of returns the schemas of a document.
func Of(read func() (*openapi3.T, error)) Schemas {
	return sync.OnceValues(func() (openapi3.Schemas, error) {
		spec, err := read()
		if err != nil {
			return nil, err
		}
		return spec.Components.Schemas, nil
	})
}

// Decode reads a request and holds it to the schema of that name.
func (s Schemas) Decode(name string, text []byte, into any) error {
	known, err := s()
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
	if err := known[name].Value.VisitJSON(value); err != nil {
		return broken(err)
	}
	return json.Unmarshal(text, into)
}

// broken is the refusal of what a schema does not allow.
func broken(err error) error {
	found, ok := errors.AsType[*openapi3.SchemaError](err)
	if !ok {
		return fault.Invalid("INVALID_FIELD", "", "%v", err)
	}
	path := found.JSONPointer()
	if name, unknown := strings.CutSuffix(found.Reason, "\" is unsupported"); unknown {
		return fault.Invalid("UNKNOWN_FIELD", strings.Join(append(path, strings.TrimPrefix(name, "property \"")), "."), "there is no such field")
	}
	return fault.Invalid("INVALID_FIELD", strings.Join(path, "."), "%s", found.Reason)
}
