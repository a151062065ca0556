package main

import (
	"bytes"
	"encoding/json"
)

// The part of OpenAPI 3.0.3 that a document derived from protos needs. The
// order of the fields is the order in the published document.

type document struct {
	OpenAPI    string        `json:"openapi"`
	Info       info          `json:"info"`
	Servers    []server      `json:"servers"`
	Tags       []tag         `json:"tags"`
	Paths      fields[*path] `json:"paths"`
	Components components    `json:"components"`

	Webhooks fields[map[string]*webhook] `json:"x-webhooks,omitempty"`

	// bodies are the components of messages as they are sent, by full name.
	bodies map[string]string
}

type info struct {
	Title       string  `json:"title"`
	Version     string  `json:"version"`
	Label       string  `json:"x-version-label,omitempty"` // as document 1 has it ("Versioning")
	Description string  `json:"description"`
	Contact     contact `json:"contact"`
	License     license `json:"license"`
}

type contact struct {
	Name string `json:"name"`
}

type license struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type server struct {
	URL         string `json:"url"`
	Description string `json:"description"`
}

type tag struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// path holds the operations of a path by their lower-case HTTP method.
type path = fields[*operation]

type operation struct {
	Tags        []string              `json:"tags"`
	Summary     string                `json:"summary"`
	Description string                `json:"description,omitempty"`
	OperationID string                `json:"operationId"`
	Parameters  []parameter           `json:"parameters,omitempty"`
	RequestBody *requestBody          `json:"requestBody,omitempty"`
	Responses   fields[response]      `json:"responses"`
	Security    []map[string][]string `json:"security"`
	Permission  string                `json:"x-permission,omitempty"`
	Feature     string                `json:"x-feature,omitempty"`
	Levels      []string              `json:"x-levels"`
	Refusals    []string              `json:"x-refusals,omitempty"`
	GRPCMethod  string                `json:"x-grpc-method"`
}

type parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Style       string  `json:"style,omitempty"`
	Explode     bool    `json:"explode,omitempty"`
	Schema      *schema `json:"schema"`
}

type requestBody struct {
	Description string               `json:"description,omitempty"`
	Required    bool                 `json:"required"`
	Content     map[string]mediaType `json:"content"`
}

type mediaType struct {
	Schema  *schema `json:"schema"`
	Example any     `json:"example,omitempty"`
}

type response struct {
	Ref         string               `json:"$ref,omitempty"`
	Description string               `json:"description,omitempty"`
	Headers     fields[header]       `json:"headers,omitempty"`
	Content     map[string]mediaType `json:"content,omitempty"`
	Links       fields[link]         `json:"links,omitempty"`
}

// link says which operation goes on with what an answer holds.
type link struct {
	OperationID string            `json:"operationId"`
	Parameters  map[string]string `json:"parameters"`
}

type header struct {
	Description string  `json:"description"`
	Required    bool    `json:"required"`
	Schema      *schema `json:"schema"`
}

type components struct {
	Schemas         fields[*schema]        `json:"schemas"`
	Responses       fields[response]       `json:"responses"`
	SecuritySchemes fields[securityScheme] `json:"securitySchemes"`
}

type securityScheme struct {
	Type        string `json:"type"`
	Description string `json:"description"`
	Scheme      string `json:"scheme,omitempty"`
	Flows       any    `json:"flows,omitempty"`
}

// schema is an OpenAPI 3.0 schema. Bounds of numbers are kept as text, because
// 64 bits do not fit a float.
type schema struct {
	Ref                  string          `json:"$ref,omitempty"`
	AllOf                []*schema       `json:"allOf,omitempty"`
	Type                 string          `json:"type,omitempty"`
	Format               string          `json:"format,omitempty"`
	Description          string          `json:"description,omitempty"`
	Enum                 []any           `json:"enum,omitempty"`
	EnumDescriptions     fields[string]  `json:"x-enumDescriptions,omitempty"`
	MinLength            *uint64         `json:"minLength,omitempty"`
	MaxLength            *uint64         `json:"maxLength,omitempty"`
	Pattern              string          `json:"pattern,omitempty"`
	Minimum              json.Number     `json:"minimum,omitempty"`
	ExclusiveMinimum     bool            `json:"exclusiveMinimum,omitempty"`
	Maximum              json.Number     `json:"maximum,omitempty"`
	ExclusiveMaximum     bool            `json:"exclusiveMaximum,omitempty"`
	Items                *schema         `json:"items,omitempty"`
	MinItems             *uint64         `json:"minItems,omitempty"`
	MaxItems             *uint64         `json:"maxItems,omitempty"`
	UniqueItems          bool            `json:"uniqueItems,omitempty"`
	Properties           fields[*schema] `json:"properties,omitempty"`
	Required             []string        `json:"required,omitempty"`
	AdditionalProperties any             `json:"additionalProperties,omitempty"` // a bool or a *schema
	MinProperties        *uint64         `json:"minProperties,omitempty"`
	MaxProperties        *uint64         `json:"maxProperties,omitempty"`
	OneOf                []*schema       `json:"oneOf,omitempty"`
	AnyOf                []*schema       `json:"anyOf,omitempty"`
	Not                  *schema         `json:"not,omitempty"`
	ExactlyOneOf         [][]string      `json:"x-exactly-one-of,omitempty"`
	AtMostOneOf          [][]string      `json:"x-at-most-one-of,omitempty"`
	EmptyIsAbsent        bool            `json:"x-empty-is-absent,omitempty"` // sending its zero value says the same as leaving it out
	Example              any             `json:"example,omitempty"`
}

// fields is a JSON object that keeps its order: properties stay in the order
// of the contract, which is the one that people and generated code want.
type fields[T any] []field[T]

type field[T any] struct {
	name  string
	value T
}

func (f *fields[T]) add(name string, value T) {
	*f = append(*f, field[T]{name, value})
}

func (f fields[T]) get(name string) (value T, ok bool) {
	for _, field := range f {
		if field.name == name {
			return field.value, true
		}
	}
	return value, false
}

// MarshalJSON writes the fields as one object.
func (f fields[T]) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, field := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(field.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(field.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
