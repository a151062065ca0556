package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/structpb" // imported by the sample

	published "github.com/writ-id/writ/gen/openapi"
	_ "github.com/writ-id/writ/gen/proto/writ/object/v3alpha" // imported by the sample
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample reads a file of descriptors in text form and adds what it imports.
func sample(t *testing.T, text []byte) *descriptorpb.FileDescriptorSet {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal(text, file); err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	var add func(path string)
	add = func(path string) {
		desc, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(set.File, func(f *descriptorpb.FileDescriptorProto) bool { return f.GetName() == path }) {
			return
		}
		for i := range desc.Imports().Len() {
			add(desc.Imports().Get(i).Path())
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(desc))
	}
	for _, path := range file.Dependency {
		add(path)
	}
	set.File = append(set.File, file)
	return set
}

// The sample has a rule of every kind the generator knows, one method for each
// shape of request, two types of the same name and a type sent and answered.
func TestSample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/sample.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	files, err := publish(sample(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openapi.yaml", "openapi-3.1.yaml"} {
		golden := filepath.Join("testdata", "sample."+name)
		if *update {
			if err := os.WriteFile(golden, files[name], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(files[name])); diff != "" {
			t.Errorf("%s differs; is it meant? then run with -update (-want +got)\n%s", golden, diff)
		}
	}
	if _, err := openapi3.NewLoader().LoadFromData(files["openapi-3.1.json"]); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBePublishedIsRefused(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/sample.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"an unknown rule", `prefix: "s"`, `well_known_regex: KNOWN_REGEX_HTTP_HEADER_NAME`, "the rule well_known_regex"},
		{"a program without a message", `message: "even"`, ``, "the cel rule even needs a message"},
		{"a method without policy", `[writ.policy.v1.operation] { success: 201 }`, ``, "CreateThing: needs the options"},
		{"a body that is no field", `body: "thing"`, `body: "stuff"`, "no field stuff"},
		{"a path variable that is no field", `/things/{thing_id}`, `/things/{other}`, "no field other"},
		{"two methods of one name", `name: "ReadThing"`, `name: "CreateThing"`, "already"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(string(text), test.old, test.new, 1)
			if changed == string(text) {
				t.Fatalf("the sample has no %q", test.old)
			}
			_, err := publish(sample(t, []byte(changed)), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// contract is the real one, as committed.
func contract(t *testing.T) *descriptorpb.FileDescriptorSet {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(published.Descriptors, set); err != nil {
		t.Fatal(err)
	}
	return set
}

func TestPublishedDocumentsAreValid(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{
		"openapi.json": published.JSON, "openapi.yaml": published.YAML,
		"openapi-3.1.json": published.JSON31, "openapi-3.1.yaml": published.YAML31,
	} {
		doc, err := openapi3.NewLoader().LoadFromData(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := doc.Validate(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the document says of a request body must be what the server does with
// it: protojson decodes it and protovalidate judges it. Every body starts from
// its example and is then spoilt in one place at a time.
func TestDocumentAndServerAgreeOnBodies(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(published.JSON)
	if err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(contract(t))
	if err != nil {
		t.Fatal(err)
	}
	bodies := 0
	for path, item := range doc.Paths.Map() {
		for verb, operation := range item.Operations() {
			if operation.RequestBody == nil || operation.Extensions["x-grpc-method"] == nil {
				continue
			}
			name := strings.ReplaceAll(operation.Extensions["x-grpc-method"].(string)[1:], "/", ".")
			found, err := files.FindDescriptorByName(protoreflect.FullName(name))
			if err != nil {
				t.Errorf("%s %s: %v", verb, path, err)
				continue
			}
			m := (&generator{}).read(found.(protoreflect.MethodDescriptor))
			media := operation.RequestBody.Value.Content.Get(jsonType)
			if refused := serverRefuses(m, media.Example); refused != nil {
				t.Errorf("%s: the server refuses the example: %v", name, refused)
			}
			spoil(media.Example, func(how string, value any) {
				bodies++
				value = plain(value)
				byDocument := media.Schema.Value.VisitJSON(value)
				byServer := serverRefuses(m, value)
				if (byDocument == nil) != (byServer == nil) {
					text, _ := json.Marshal(value)
					t.Errorf("%s, %s: the document says %.100v, the server %v\n%.300s", name, how, byDocument, byServer, text)
				}
			})
		}
	}
	if bodies < 100 {
		t.Errorf("only %d bodies were tried", bodies)
	}
}

// plain is value as encoding/json reads it.
func plain(value any) (out any) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// serverRefuses decodes body into the request of m, as the gateway does, and
// returns what is wrong with it.
func serverRefuses(m *method, body any) error {
	request := body
	if m.body != "*" {
		request = map[string]any{m.bodyField().JSONName(): body}
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	message := dynamicpb.NewMessage(m.desc.Input())
	if err := protojson.Unmarshal(text, message); err != nil {
		return err
	}
	err = protovalidate.Validate(message)
	violations, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return err
	}
	for _, violation := range violations.Violations {
		path := violation.Proto.GetField().GetElements()
		if !slices.ContainsFunc(m.inPath, func(f protoreflect.FieldDescriptor) bool { return string(f.Name()) == path[0].GetFieldName() }) {
			return err
		}
	}
	return nil
}

// spoil calls try with value, and with value changed in one place.
func spoil(value any, try func(how string, value any)) {
	try("as it is", value)
	for _, other := range []any{
		"", "x", strings.Repeat("é", 200), strings.Repeat("é", 201), strings.Repeat("x", 1001), "urn:x", "//x/y", "http://ex ample",
		"0s", "1s", "0.000000001s", "0.50s", "01s", "-1s", "270s", "270.0s", "270.000000001s", "271s", "1000s", "1m",
		true, false, 3.5, []any{}, map[string]any{}, []any{"", ""}, []any{map[string]any{}}, "NO_SUCH_NAME",
	} {
		try(fmt.Sprintf("replaced by %.20v", other), other)
	}
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			without := cloned(value)
			delete(without, name)
			try("without "+name, without)
			spoil(inner, func(how string, inner any) {
				with := cloned(value)
				with[name] = inner
				try(name+" "+how, with)
			})
		}
		for _, name := range []string{"surprise", "restRequestResponse", "interruptOnError", "response", "service", "all", "inIds", "executionType", "include"} {
			if _, there := value[name]; !there {
				for _, inner := range []any{true, "x", map[string]any{}, map[string]any{"url": "https://a.example"}, map[string]any{"ids": []any{}}} {
					with := cloned(value)
					with[name] = inner
					try(fmt.Sprintf("with %s %v", name, inner), with)
				}
			}
		}
	case []any:
		for _, n := range []int{100, 101, 1000, 1001} {
			many := make([]any, n)
			for i := range many {
				many[i] = value[0]
			}
			try(fmt.Sprintf("%d times", n), many)
		}
		spoil(value[0], func(how string, inner any) { try("item "+how, []any{inner}) })
	}
}

func cloned(m map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range m {
		out[name] = value
	}
	return out
}

// The facts of document 1 that the descriptors do not spell.
func TestPublishedOperations(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(published.JSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ verb, path, id, statuses, permission string }{
		{"POST", "/resources/v3alpha/targets", "CreateTarget", "201 400 401 403 404 409 413 415 429 4XX 500 503", "action.target.write"},
		{"GET", "/resources/v3alpha/targets/{id}", "GetTarget", "200 400 401 403 404 429 4XX 500 503", "action.target.read"},
		{"POST", "/resources/v3alpha/executions", "PutExecution", "200 201 400 401 403 404 413 415 429 4XX 500 503", "action.execution.write"},
		{"DELETE", "/resources/v3alpha/executions/{id}", "DeleteExecution", "200 400 401 403 404 429 4XX 500 503", "action.execution.delete"},
		{"GET", "/v2/features/system", "GetSystemFeatures", "200 400 401 404 4XX 500 503", ""},
		{"GET", "/v2/features/instance", "GetInstanceFeatures", "200 400 401 403 404 429 4XX 500 503", ""},
	} {
		item := doc.Paths.Value(test.path)
		if item == nil || item.GetOperation(test.verb) == nil {
			t.Errorf("no %s %s", test.verb, test.path)
			continue
		}
		operation := item.GetOperation(test.verb)
		var statuses []string
		for status := range operation.Responses.Map() {
			statuses = append(statuses, status)
		}
		slices.Sort(statuses)
		permission, _ := operation.Extensions["x-permission"].(string)
		if got := strings.Join(statuses, " "); got != test.statuses || operation.OperationID != test.id || permission != test.permission {
			t.Errorf("%s %s: got %s, %s, %q, want %s, %s, %q", test.verb, test.path, operation.OperationID, got, permission, test.id, test.statuses, test.permission)
		}
	}
	search := doc.Paths.Value("/resources/v3alpha/targets/_search").Post
	var names []string
	for _, p := range search.Parameters {
		names = append(names, p.Value.Name)
	}
	if got, want := strings.Join(names, " "), "query.offset query.limit query.asc sortingColumn"; got != want {
		t.Errorf("got query parameters %s, want %s", got, want)
	}
	if !search.RequestBody.Value.Content.Get(jsonType).Schema.Value.Type.Is("array") {
		t.Error("the body of a search is not a list")
	}
}

func TestDurationPattern(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		low, high         int64
		withLow, withHigh bool
		yes, no           string
	}{
		{0, 270, false, true, "0.5s 0.500s 0.000000001s 0.050s 1s 9.999999999s 10s 99s 100s 199.5s 200s 260s 269.9s 270s 270.000s", "0s 0.0s 0.000s 00.5s 01s -1s 270.1s 271s 280s 300s 999s 1000s 1 s 1.s 0.0000000001s"},
		{0, 30, true, false, "0s 0.0s 5s 29.999999999s", "30s 30.0s 31s 100s -0.5s"},
		{5, 1200, true, true, "5s 5.0s 9s 1199.9s 1200s", "4.9s 1200.1s 1201s 12000s"},
	} {
		pattern := regexp.MustCompile(durationPattern(test.low, test.high, test.withLow, test.withHigh))
		for text := range strings.FieldsSeq(test.yes) {
			if !pattern.MatchString(text) {
				t.Errorf("%v does not match %s", pattern, text)
			}
		}
		for text := range strings.FieldsSeq(test.no) {
			if pattern.MatchString(text) {
				t.Errorf("%v matches %s", pattern, text)
			}
		}
	}
	for low := int64(0); low < 130; low++ {
		for high := low; high < 1250; high += 7 {
			pattern := regexp.MustCompile("^(" + strings.Join(digits(low, high), "|") + ")$")
			for n, want := range map[int64]bool{low: true, high: true, (low + high) / 2: true, low - 1: false, high + 1: false, high*10 + 10: false} {
				if got := pattern.MatchString(fmt.Sprint(n)); got != want {
					t.Fatalf("%d to %d: %v matches %d: %v", low, high, pattern, n, got)
				}
			}
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	const ours = `{tags: [{name: a}], paths: {/a: {get: {}}}, components: {schemas: {A: {type: object}}}}`
	for _, test := range []struct{ name, other, want, wantErr string }{
		{
			"what is new is added", `{tags: [{name: b}], paths: {/b: {get: {}}}, components: {schemas: {B: {type: string}}, headers: {H: {}}}}`,
			`{"tags":[{"name":"a"},{"name":"b"}],"paths":{"/a":{"get":{}},"/b":{"get":{}}},"components":{"schemas":{"A":{"type":"object"},"B":{"type":"string"}},"headers":{"H":{}}}}`, "",
		},
		{"the same is the same", `{components: {schemas: {A: {type: object}}}}`, `{"tags":[{"name":"a"}],"paths":{"/a":{"get":{}}},"components":{"schemas":{"A":{"type":"object"}}}}`, ""},
		{"another of that name is refused", `{components: {schemas: {A: {type: string}}}}`, "", "A is there already and differs: rename one of them"},
		{"a path is not split over documents", `{paths: {/a: {post: {}}}}`, "", "/a is there already and differs: rename one of them"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			into, err := parse([]byte(ours))
			if err != nil {
				t.Fatal(err)
			}
			other, err := parse([]byte(test.other))
			if err != nil {
				t.Fatal(err)
			}
			if err := merge(into, other); err != nil || test.wantErr != "" {
				if err == nil || err.Error() != test.wantErr {
					t.Errorf("got error %v, want %q", err, test.wantErr)
				}
				return
			}
			got, _ := json.Marshal(json.RawMessage(writeJSON(into)))
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestNamesOfGeneratorsAreRefused has a schema of a name that code generators
// need for themselves, and two enums that share a value.
func TestNamesOfGeneratorsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ schemas, want string }{
		{"Tokens: {type: object}", ""},
		{"Configuration: {type: object}", "the schema Configuration has"},
		{"APIClient: {type: object}", "the schema APIClient has"},
		{"TokenResponse: {type: object}", "the schema TokenResponse has"}, // of the operation Token
		{"A: {type: string, enum: [X, Y]}\n    B: {type: string, enum: [Y, Z]}", "the enums A and B both have Y"},
		{"A: {type: string, enum: [X]}\n    B: {type: object, properties: {b: {type: string, enum: [X]}}}", ""}, // named B_B
	} {
		root, err := parse([]byte("paths: {/t: {post: {operationId: Token}}}\ncomponents:\n  schemas:\n    " + test.schemas))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := usable(root); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: got %q, want %q", test.schemas, got, test.want)
		}
	}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	root, err := parse([]byte(`
openapi: 3.0.3
paths:
  /a:
    get:
      parameters:
        - {name: p, in: query, example: {nullable: true}, schema: {type: integer, minimum: 1, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: false, example: 2}}
components:
  examples: {E: {value: {schema: {nullable: true}}}}
  schemas:
    A: {type: string, nullable: true, enum: [x]}
    B: {allOf: [{$ref: '#/components/schemas/A'}], description: A described one.}
    C: {allOf: [{$ref: '#/components/schemas/A'}], nullable: true}
    D: {type: object, properties: {nullable: {type: string, format: byte}}, additionalProperties: {type: string, nullable: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	upgrade(root)
	want, err := parse([]byte(`
openapi: 3.1.0
paths:
  /a:
    get:
      parameters:
        - {name: p, in: query, example: {nullable: true}, schema: {type: integer, exclusiveMinimum: 1, maximum: 9, examples: [2]}}
components:
  examples: {E: {value: {schema: {nullable: true}}}}
  schemas:
    A: {type: [string, 'null'], enum: [x, null]}
    B: {$ref: '#/components/schemas/A', description: A described one.}
    C: {anyOf: [{allOf: [{$ref: '#/components/schemas/A'}]}, {type: 'null'}]}
    D: {type: object, properties: {nullable: {type: string, contentEncoding: base64}}, additionalProperties: {type: [string, 'null']}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(writeJSON(want)), string(writeJSON(root))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, first, rest string }{
		{"Reads one.", "Reads one", ""},
		{"Reads one. It may fail.", "Reads one", "It may fail."},
		{"Reads one.\n\nIt may fail.", "Reads one", "It may fail."},
		{"Reads v1.2 of it\n\nMore. Yes.", "Reads v1.2 of it", "More. Yes."},
	} {
		if first, rest := summary(test.text); first != test.first || rest != test.rest {
			t.Errorf("%q: got %q and %q, want %q and %q", test.text, first, rest, test.first, test.rest)
		}
	}
}
