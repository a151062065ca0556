package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// seedSchema completes the JSON Schema of seed files. Where the hand-written part
// says x-contract, the name of a message, it gets what the document (in 3.1, whose
// schemas are JSON Schema) says of the message when it is sent; fields in x-without
// are left out, the seed knows them itself. Names are in snake case, as in the
// contract; patternProperties let those of the API pass, so that editors propose one.
func seedSchema(skeleton, document []byte, bodies map[string]string) ([]byte, error) {
	var root map[string]any
	if err := json.Unmarshal(skeleton, &root); err != nil {
		return nil, err
	}
	var published struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(document, &published); err != nil {
		return nil, err
	}
	defs, _ := root["$defs"].(map[string]any)
	b := &seedBuilder{schemas: published.Components.Schemas, bodies: bodies, defs: defs}
	b.fill(root)
	if b.err != nil {
		return nil, b.err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(root)
	return out.Bytes(), err
}

type seedBuilder struct {
	schemas map[string]map[string]any
	bodies  map[string]string // component by message
	defs    map[string]any
	err     error
}

// fill completes every schema below n that names a message.
func (b *seedBuilder) fill(n any) {
	switch n := n.(type) {
	case []any:
		for _, item := range n {
			b.fill(item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(n)) {
			b.fill(n[name])
		}
		if message, ok := n["x-contract"].(string); ok {
			b.join(n, message)
		}
	}
}

// join adds to a hand-written schema what the contract says of a message. What both
// say is about the file in the hand-written one.
func (b *seedBuilder) join(own map[string]any, message string) {
	published := b.schemas[b.bodies[message]]
	if published == nil {
		b.err = fmt.Errorf("no operation is sent a %s: add one, or take it out of the schema of the seed", message)
		return
	}
	without, _ := own["x-without"].([]any)
	delete(own, "x-contract")
	delete(own, "x-without")
	for name, value := range b.schema(published, without) {
		switch mine := own[name].(type) {
		case nil:
			own[name] = value
		case map[string]any: // properties
			for key, schema := range value.(map[string]any) {
				if mine[key] == nil {
					mine[key] = schema
				}
			}
		case []any: // required
			for _, item := range value.([]any) {
				if !slices.Contains(mine, item) {
					mine = append(mine, item)
				}
			}
			own[name] = mine
		}
	}
}

// schema returns a schema of the document with the names of seed files and without
// some fields of its own.
func (b *seedBuilder) schema(of map[string]any, without []any) map[string]any {
	made := map[string]any{}
	for name, value := range of {
		switch {
		case name == "$ref":
			made[name] = "#/$defs/" + b.define(strings.TrimPrefix(value.(string), schemaRef))
		case name == "properties":
			b.properties(made, value.(map[string]any), without)
		case name == "required":
			b.required(made, value.([]any), without)
		case strings.HasPrefix(name, "x-"):
		case name == "items", name == "not", name == "additionalProperties":
			if inner, ok := value.(map[string]any); ok {
				value = b.schema(inner, nil)
			}
			made[name] = value
		case name == "oneOf", name == "anyOf", name == "allOf":
			for _, item := range value.([]any) {
				list, _ := made[name].([]any)
				made[name] = append(list, b.schema(item.(map[string]any), without))
			}
		default:
			made[name] = value
		}
	}
	return made
}

func (b *seedBuilder) define(component string) string {
	if b.defs[component] == nil {
		b.defs[component] = true // it may be used within itself
		b.defs[component] = b.schema(b.schemas[component], nil)
	}
	return component
}

func (b *seedBuilder) properties(made, of map[string]any, without []any) {
	snake, camel := map[string]any{}, map[string]any{}
	for name, value := range of {
		schema, own := b.schema(value.(map[string]any), nil), snakeCase(name)
		switch {
		case len(schema) == 0, slices.Contains(without, any(own)): // only named by what must not be together
			continue
		case own != name:
			other := maps.Clone(schema)
			delete(other, "description")
			camel["^"+name+"$"] = other
		}
		snake[own] = schema
	}
	if len(snake) > 0 {
		made["properties"] = snake
	}
	if len(camel) > 0 {
		made["patternProperties"] = camel
	}
}

// required asks for names in either spelling.
func (b *seedBuilder) required(made map[string]any, names, without []any) {
	for _, one := range names {
		name := one.(string)
		own := snakeCase(name)
		switch list, _ := made["required"].([]any); {
		case slices.Contains(without, any(own)):
		case own == name:
			made["required"] = append(list, name)
		default:
			all, _ := made["allOf"].([]any)
			made["allOf"] = append(all, map[string]any{"anyOf": []any{
				map[string]any{"required": []any{own}}, map[string]any{"required": []any{name}},
			}})
		}
	}
}

func snakeCase(name string) string {
	var snake strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			snake.WriteByte('_')
		}
		snake.WriteRune(unicode.ToLower(r))
	}
	return snake.String()
}
