package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object with its members in their order, which is that of the contract.
type object[V any] []member[V]

type member[V any] struct {
	name  string
	value V
}

func (o *object[V]) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("an object was expected, not %v: %w", start, err)
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		m := member[V]{name: name.(string)}
		if err := decoder.Decode(&m.value); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		*o = append(*o, m)
	}
	return nil
}

func (o object[V]) get(name string) (value V, ok bool) {
	for _, m := range o {
		if m.name == name {
			return m.value, true
		}
	}
	return value, false
}

// document is what a client is made of in an OpenAPI document of contracts/generate/openapi.
type document struct {
	Info struct {
		Version     string `json:"version"`
		Description string `json:"description"`
	} `json:"info"`
	Tags []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths      object[object[operation]] `json:"paths"`
	Components struct {
		Schemas    object[schema]    `json:"schemas"`
		Responses  object[response]  `json:"responses"`
		Parameters object[parameter] `json:"parameters"`
	} `json:"components"`
}

type operation struct {
	ID          string                `json:"operationId"`
	Tags        []string              `json:"tags"`
	Summary     string                `json:"summary"`
	Description string                `json:"description"`
	Parameters  []parameter           `json:"parameters"`
	RequestBody *response             `json:"requestBody"`
	Responses   object[response]      `json:"responses"`
	Security    []map[string][]string `json:"security"`
	Method      string                `json:"x-grpc-method"`
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
	Schema      schema `json:"schema"`
}

// response is the body of a request too.
type response struct {
	Ref         string          `json:"$ref"`
	Description string          `json:"description"`
	Content     object[content] `json:"content"`
}

type content struct {
	Schema  schema          `json:"schema"`
	Example json.RawMessage `json:"example"`
}

type schema struct {
	Ref          string            `json:"$ref"`
	Type         string            `json:"type"`
	Format       string            `json:"format"`
	Pattern      string            `json:"pattern"`
	Description  string            `json:"description"`
	Properties   object[schema]    `json:"properties"`
	Required     []string          `json:"required"`
	Items        *schema           `json:"items"`
	AllOf        []schema          `json:"allOf"`
	Enum         []any             `json:"enum"`
	Meanings     map[string]string `json:"x-enumDescriptions"`
	Additional   json.RawMessage   `json:"additionalProperties"`
	ExactlyOneOf [][]string        `json:"x-exactly-one-of"`
	AtMostOneOf  [][]string        `json:"x-at-most-one-of"`
	// Zero and absent say the same of a property.
	EmptyIsAbsent bool `json:"x-empty-is-absent"`
}
