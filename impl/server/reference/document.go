package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The part of an OpenAPI document that the page shows.

type document struct {
	Info struct {
		Title, Version, Description string
		License                     struct{ Name, URL string }
	}
	Tags       []struct{ Name, Description string }
	Paths      ordered[ordered[json.RawMessage]]
	Webhooks   ordered[struct{ Post webhook }] `json:"x-webhooks"`
	Components struct {
		Schemas         ordered[*schema]
		Responses       ordered[*response]
		Parameters      ordered[*parameter]
		RequestBodies   ordered[*requestBody]
		SecuritySchemes ordered[struct{ Type, Scheme string }]
	}
}

// webhook is the call of an event.
type webhook struct {
	Summary, Description string
	Aggregate            string `json:"x-aggregate"`
	RequestBody          requestBody
}

type operation struct {
	Tags                 []string
	Summary, Description string
	OperationID          string
	Parameters           []*parameter
	RequestBody          *requestBody
	Responses            ordered[*response]
	Security             []map[string][]string
	Permission           string   `json:"x-permission"`
	Feature              string   `json:"x-feature"`
	Levels               []string `json:"x-levels"`
	GRPCMethod           string   `json:"x-grpc-method"`
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Description string
	Required    bool
	Schema      *schema
	Example     any
}

type requestBody struct {
	Ref         string `json:"$ref"`
	Description string
	Content     ordered[mediaType]
}

type mediaType struct {
	Schema  *schema
	Example json.RawMessage
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Headers     ordered[struct{ Description string }]
	Content     ordered[mediaType]
}

type schema struct {
	Ref                                string `json:"$ref"`
	Type, Format, Pattern, Description string
	Enum                               []any
	EnumDescriptions                   map[string]string `json:"x-enumDescriptions"`
	MinLength, MaxLength               *int
	Minimum, Maximum                   *json.Number
	ExclusiveMinimum, ExclusiveMaximum bool
	MinItems, MaxItems                 *int
	MinProperties, MaxProperties       *int
	UniqueItems                        bool
	Nullable                           bool
	Items, Not                         *schema
	Properties                         ordered[*schema]
	Required                           []string
	AdditionalProperties               json.RawMessage
	AllOf, OneOf, AnyOf                []*schema
	ExactlyOneOf                       [][]string `json:"x-exactly-one-of"`
	AtMostOneOf                        [][]string `json:"x-at-most-one-of"`
	Default, Example                   any
}

// ordered is a JSON object in the order of its text.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

func (o ordered[T]) get(name string) (value T, ok bool) {
	for _, entry := range o {
		if entry.Name == name {
			return entry.Value, true
		}
	}
	return value, false
}

// UnmarshalJSON reads an object.
func (o *ordered[T]) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil { // {
		return err
	}
	*o = nil
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		e := entry[T]{Name: fmt.Sprint(name)}
		if err := decoder.Decode(&e.Value); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		*o = append(*o, e)
	}
	return nil
}

// resolve follows a $ref into components, or returns v.
func resolve[T any](components ordered[*T], ref string, v *T) (*T, error) {
	if ref == "" {
		return v, nil
	}
	found, ok := components.get(ref[strings.LastIndexByte(ref, '/')+1:])
	if !ok {
		return nil, fmt.Errorf("nothing at %s", ref)
	}
	return found, nil
}
