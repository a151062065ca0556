package oidc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// parseObject reads a JSON object. A member that occurs twice is an error
// (RFC 7519 §4 lets a parser reject it; readers would disagree on its value).
func parseObject(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := parseValue(d)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a JSON %T, not an object", value)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return object, nil
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			key, _ := name.(string)
			if _, twice := object[key]; twice {
				return nil, fmt.Errorf("the member %q occurs twice", key)
			}
			if object[key], err = parseValue(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// text returns a string member, "" when it is absent or something else.
func text(object map[string]any, name string) string {
	value, _ := object[name].(string)
	return value
}
