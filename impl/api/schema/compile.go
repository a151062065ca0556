package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// PermissionKeyword is the keyword of a property that says who may read (r) and
// write (w) it: an object with the members admin and self. It counts for properties
// of the object and of objects within it; elsewhere, as behind a $ref, it would not
// be obeyed and is refused.
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

// Schema is a compiled schema. It checks one value at a time.
type Schema struct {
	compiled *jsonschema.Schema
	document map[string]any
	meter    *meter
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
	if err := checkKeywords(root, inObject, 0); err != nil {
		return nil, err
	}
	if bytes.Count(text, []byte("{")) > maxObjects && objects(root) > maxObjects {
		return nil, fmt.Errorf("a schema may have at most %d schemas and other objects", maxObjects)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(nothing{})
	compiler.UseRegexpEngine((&patterns{known: map[string]*pattern{}}).compile)
	if err := compiler.AddResource(base, document); err != nil {
		return nil, errors.New(first(err))
	}
	compiled, err := compiler.Compile(base)
	if err != nil {
		return nil, errors.New(first(err))
	}
	meter, err := limit(compiled)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled, root, meter}, nil
}

// base is the address of a schema that names none. It is hierarchical, so that a
// relative reference leads away from it instead of back.
const base = "https://schema.invalid/"

// nothing loads no schema: what a tenant writes must not make us fetch (SEC-250).
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}

// dialect is the only one a schema, or one within it, may name; nobody may refer to it.
const (
	metaschemas = "https://json-schema.org/"
	dialect     = metaschemas + "draft/2020-12/schema"
)

// where a part of a schema stands, for the permission keyword.
type where int

const (
	elsewhere    where = iota
	inObject           // the schema of the object or of an object in it
	inProperties       // the value of its keyword properties
	inProperty         // the schema of a property
)

// checkKeywords walks a schema for dialects and permissions.
func checkKeywords(node any, at where, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("a schema may be at most %d levels deep", maxDepth)
	}
	switch node := node.(type) {
	case map[string]any:
		if said, ok := node["$schema"].(string); ok && strings.TrimSuffix(said, "#") != dialect {
			return errors.New("$schema has to be " + dialect)
		}
		if permission, ok := node[PermissionKeyword]; ok && at != inProperties {
			if at != inProperty {
				return fmt.Errorf("%s is for the properties of objects", PermissionKeyword)
			}
			if err := checkPermission(permission); err != nil {
				return err
			}
		}
		for name, inner := range node {
			within := elsewhere
			switch {
			case at == inProperties:
				within = inProperty
			case name == "properties" && (at == inObject || at == inProperty):
				within = inProperties
			}
			if err := checkKeywords(inner, within, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range node {
			if err := checkKeywords(inner, elsewhere, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// objects counts the objects in a JSON value.
func objects(node any) int {
	count := 0
	switch node := node.(type) {
	case map[string]any:
		count++
		for _, inner := range node {
			count += objects(inner)
		}
	case []any:
		for _, inner := range node {
			count += objects(inner)
		}
	}
	return count
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

// Apply returns what data becomes when it replaces before: properties that the
// access may not write stay when they are left out. It refuses data that changes
// such a property or breaks the schema.
func (s *Schema) Apply(ctx context.Context, data, before map[string]any, access Access) (map[string]any, error) {
	merged, err := merge(s.document, data, before, access, "")
	if err != nil {
		return nil, err
	}
	return merged, s.Check(ctx, merged)
}

// Check refuses data that breaks the schema, or takes more work to check than there
// is for a value, or than the context lets it have.
func (s *Schema) Check(ctx context.Context, data map[string]any) error {
	s.meter.ctx, s.meter.left, s.meter.err = ctx, maxWork, nil
	err := s.compiled.Validate(any(data))
	if s.meter.err != nil { // whatever was made of it
		return s.meter.err
	}
	if err != nil {
		return errors.New(first(err))
	}
	return nil
}

// merge walks the properties of an object.
func merge(schema, data, before map[string]any, access Access, path string) (merged map[string]any, err error) {
	properties, _ := schema["properties"].(map[string]any)
	merged = make(map[string]any, len(data))
	for name, value := range data {
		at, property := strings.TrimPrefix(path+"."+name, "."), properties[name]
		old, had := before[name]
		if !allowed(property, access, "w") && (!had || !reflect.DeepEqual(value, old)) {
			return nil, fmt.Errorf("%s must not be written", at)
		}
		inner, isObject := value.(map[string]any)
		of, ok := property.(map[string]any)
		if !isObject || !ok {
			merged[name] = value
			continue
		}
		within, _ := old.(map[string]any)
		if merged[name], err = merge(of, inner, within, access, at); err != nil {
			return nil, err
		}
	}
	for name, value := range before {
		if _, given := data[name]; given {
			continue
		}
		if kept := unwritable(properties[name], value, access); kept != nil {
			merged[name] = kept
		}
	}
	return merged, nil
}

// unwritable returns what has to stay of a value that is left out, or nil.
func unwritable(property, value any, access Access) any {
	if !allowed(property, access, "w") {
		return value
	}
	of, _ := property.(map[string]any)
	properties, _ := of["properties"].(map[string]any)
	object, _ := value.(map[string]any)
	kept := map[string]any{}
	for name, inner := range object {
		if stays := unwritable(properties[name], inner, access); stays != nil {
			kept[name] = stays
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// allowed reports whether the permission of a property, if it has one, gives the
// access a letter.
func allowed(property any, access Access, letter string) bool {
	of, _ := property.(map[string]any)
	permission, ok := of[PermissionKeyword].(map[string]any)
	letters, _ := permission[string(access)].(string)
	return !ok || strings.Contains(letters, letter)
}

// Readable removes from data, the value of an object, what the access may not read
// by a schema, which was compiled before.
func Readable(schema, data map[string]any, access Access) {
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range data {
		if !allowed(properties[name], access, "r") {
			delete(data, name)
			continue
		}
		inner, isObject := value.(map[string]any)
		if of, ok := properties[name].(map[string]any); ok && isObject {
			Readable(of, inner, access)
		}
	}
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
