// Package seed applies a seed file: one YAML document that says what has to
// exist. Its rules are contracts/seed.schema.json; the types here only mirror
// it. Applying a file again changes what differs and deletes nothing.
package seed

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/writ-id/writ/contracts"
	"github.com/writ-id/writ/gen/openapi"
)

// File is a seed file. What a resource has in the contract it has here under the
// same names; Body holds that part, which the operations take as it is.
type File struct {
	System struct {
		Features map[string]bool
		Users    []SystemUser
	}
	Instances []Instance
}

// Body is the part of a resource that goes to its create or patch operation.
type Body map[string]any

// SystemUser is a service user of the system.
type SystemUser struct {
	ID       string
	Username string
	Roles    []string
	Tokens   []Token
}

// Instance is a tenant.
type Instance struct {
	ID            string
	Name          string
	Domains       []string
	Features      map[string]bool
	Limits        Body
	Settings      `yaml:",inline"`
	Targets       []Body
	Executions    []Body
	UserSchemas   []Body     `yaml:"user_schemas"`
	SMTPProviders []Provider `yaml:"smtp_providers"`
	SMSProviders  []Provider `yaml:"sms_providers"`
	Organizations []Organization
	// AllowRegistration says whether people may register themselves; nil: as it is.
	AllowRegistration *bool `yaml:"allow_registration"`
}

// Settings are what an instance or an organization says itself.
type Settings struct {
	Languages    Body
	Branding     Body
	Lifetimes    Body
	Applications Body
	MessageTexts map[string]map[string]Body `yaml:"message_texts"` // by kind and language
}

// Provider carries e-mails or text messages on.
type Provider struct {
	Active bool // whether the instance sends through it
	Body   Body `yaml:",inline"`
}

// Organization is an organization of an instance.
type Organization struct {
	ID         string
	Name       string
	Default    bool
	Domains    []string
	Settings   `yaml:",inline"`
	Users      []User
	Projects   []Project
	UserGrants []UserGrant `yaml:"user_grants"`
}

// User is a human or a service user.
type User struct {
	InstanceRoles []string `yaml:"instance_roles"`
	OrgRoles      []string `yaml:"org_roles"`
	Tokens        []Token
	Secret        *Secret
	Keys          []Key
	Metadata      map[string]string
	Body          Body `yaml:",inline"`
}

// Token is a personal access token.
type Token struct {
	Name    string
	Token   string
	Expires *time.Time
}

// Secret is a client secret; an empty one is generated.
type Secret struct{ Value string }

// Key is a key pair, generated when it has no public key.
type Key struct {
	Name      string
	PublicKey string `yaml:"public_key"`
}

// Project is a project with what belongs to it.
type Project struct {
	Roles   []Body
	Apps    []App
	Members []Member
	Grants  []ProjectGrant
	Body    Body `yaml:",inline"`
}

// App is an application.
type App struct {
	Secret                *Secret
	Trusted               bool
	TrustedInOrganization bool `yaml:"trusted_in_organization"`
	Keys                  []Key
	Body                  Body `yaml:",inline"`
}

// Member is a user with roles on a project.
type Member struct {
	User  string // a username of the organization
	Roles []string
}

// ProjectGrant gives a project to another organization of the instance.
type ProjectGrant struct {
	Organization string
	RoleKeys     []string `yaml:"role_keys"`
}

// UserGrant gives a user of the organization roles of a project.
type UserGrant struct {
	User         string
	Organization string // whose project it is, when not this one's
	Project      string
	RoleKeys     []string `yaml:"role_keys"`
}

// Parse reads a seed file. name is for messages; lookup finds the variables
// that ${NAME} stands for, as os.LookupEnv does.
func Parse(name string, text []byte, lookup func(string) (string, bool)) (*File, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := substitute(&document, lookup); err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	var plain any
	if err := document.Decode(&plain); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	schema, err := compiled()
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(jsonValue(plain)); err != nil {
		return nil, fmt.Errorf("%s:%s", name, problem(&document, err))
	}
	var file File
	if err := document.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &file, nil
}

// Read reads the seed file at path with the environment of the process.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text, os.LookupEnv)
}

// Default returns the seed that `writ dev` starts with.
func Default() (*File, error) { return Parse("the default seed", contracts.DefaultSeed, os.LookupEnv) }

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.SeedSchema))
	if err != nil {
		return nil, fmt.Errorf("seed.schema.json: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("seed.json", document); err != nil {
		return nil, err
	}
	return compiler.Compile("seed.json")
})

// jsonValue turns times, which YAML knows and JSON does not, back into texts.
func jsonValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = jsonValue(value)
		}
	case []any:
		for i, value := range v {
			v[i] = jsonValue(value)
		}
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	return v
}

var variable = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// substitute replaces variables in the values of the document, after parsing,
// so that no value can change its structure.
func substitute(node *yaml.Node, lookup func(string) (string, bool)) error {
	if node.Kind == yaml.ScalarNode && strings.Contains(node.Value, "${") {
		var missing string
		node.Value = variable.ReplaceAllStringFunc(node.Value, func(found string) string {
			if found == "$${" {
				return "${"
			}
			parts := variable.FindStringSubmatch(found)
			value, ok := lookup(parts[1])
			if !ok && parts[2] == "" {
				missing = parts[1]
			}
			if !ok {
				value = parts[3]
			}
			return value
		})
		if missing != "" {
			return fmt.Errorf("%d: the variable %s is not set", node.Line, missing)
		}
		node.Tag, node.Style = "!!str", yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		if err := substitute(child, lookup); err != nil {
			return err
		}
	}
	return nil
}
