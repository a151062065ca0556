package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// PermissionKeyword is the keyword of a property that says who may read (r) and
// write (w) it: an object with the members admin and self.
const PermissionKeyword = "urn:service:schema:permission"

// Access is who asks for a property of a user's data.
type Access string

// The kinds of access.
const (
	Admin Access = "admin" // somebody with user.write
	Self  Access = "self"  // the user
)

// Limits of a schema: what compiles may still be slow to compile.
const (
	maxSchemaBytes = 64 << 10
	maxDepth       = 32
)

// Schema is a compiled schema.
type Schema struct {
	compiled *jsonschema.Schema
	document map[string]any
}

// Compile compiles a schema. It refuses what is not JSON Schema 2020-12 of an
// object, refers to anything outside itself, or misuses the permission keyword.
func Compile(text []byte) (*Schema, error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("a schema may have at most %d bytes", maxSchemaBytes)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	root, ok := document.(map[string]any)
	if !ok || root["type"] != "object" {
		return nil, errors.New(`the schema has to say "type": "object"`)
	}
	if dialect, said := root["$schema"]; said && dialect != jsonschema.Draft2020.String() && dialect != "https://json-schema.org/draft/2020-12/schema" {
		return nil, errors.New("$schema has to be https://json-schema.org/draft/2020-12/schema")
	}
	if err := checkKeywords(root, 0); err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(nothing{})
	if err := compiler.AddResource("urn:writ:schema", document); err != nil {
		return nil, errors.New(first(err))
	}
	compiled, err := compiler.Compile("urn:writ:schema")
	if err != nil {
		return nil, errors.New(first(err))
	}
	return &Schema{compiled, root}, nil
}

// nothing loads no schema: what a tenant writes must not make us fetch (SEC-250).
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}

// checkKeywords walks a schema for permissions.
func checkKeywords(node any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("a schema may be at most %d levels deep", maxDepth)
	}
	switch node := node.(type) {
	case map[string]any:
		if permission, ok := node[PermissionKeyword]; ok {
			if err := checkPermission(permission); err != nil {
				return err
			}
		}
		for _, inner := range node {
			if err := checkKeywords(inner, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range node {
			if err := checkKeywords(inner, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPermission(value any) error {
	members, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s has to be an object", PermissionKeyword)
	}
	for role, letters := range members {
		text, isText := letters.(string)
		if role != string(Admin) && role != string(Self) || !isText || strings.Trim(text, "rw") != "" || len(text) > 2 {
			return fmt.Errorf("%s: only admin and self, each made of r and w, not %q", PermissionKeyword, role)
		}
	}
	return nil
}

// Check refuses data that breaks the schema, or that writes a property which the
// access does not allow to write.
func (s *Schema) Check(data map[string]any, before map[string]any, access Access) error {
	if err := s.compiled.Validate(any(data)); err != nil {
		return errors.New(first(err))
	}
	return s.mayWrite(s.document, data, before, access, "")
}

// mayWrite walks the properties whose values differ from before.
func (s *Schema) mayWrite(schema, data, before map[string]any, access Access, path string) error {
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range data {
		at := strings.TrimPrefix(path+"."+name, ".")
		property, _ := properties[name].(map[string]any)
		if permission, ok := property[PermissionKeyword].(map[string]any); ok {
			letters, _ := permission[string(access)].(string)
			if !strings.Contains(letters, "w") && fmt.Sprint(value) != fmt.Sprint(before[name]) {
				return fmt.Errorf("%s must not be written", at)
			}
		}
		if inner, ok := value.(map[string]any); ok && property != nil {
			old, _ := before[name].(map[string]any)
			if err := s.mayWrite(property, inner, old, access, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// first returns the innermost problem of an error in one line.
func first(err error) string {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		err = invalid.Err
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return strings.SplitN(err.Error(), "\n", 2)[0]
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	at := strings.Join(invalid.InstanceLocation, ".")
	if at != "" {
		at += ": "
	}
	return at + invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}
