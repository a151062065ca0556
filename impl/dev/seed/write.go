package seed

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	domainv3 "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/transfer"
)

// As says what a seed file has that an export does not.
type As struct {
	// Instance is the name of the instance; Domains, which may be none, are its own.
	Instance string
	Domains  []string
	// Lost is told of what a seed file has no place for: the list of the export, the ID there
	// and why.
	Lost func(kind, id, reason string)
}

// Write writes what an export has as a seed file, which Apply takes as it is. It holds all
// of it in memory: seed files are for people.
func Write(ctx context.Context, to io.Writer, source transfer.Source, as As) error {
	if as.Instance == "" {
		return errors.New("a seed file names its instance")
	}
	w := &writing{
		As: as, items: map[string][]transfer.Item{}, entries: map[string][]*transferv1.TransferUserMetadata{}, roles: map[string][]string{},
		orgs: map[string]*transferv1.TransferOrganization{}, users: map[string]*transferv1.TransferUser{}, projects: map[string]*transferv1.TransferProject{},
	}
	if w.Lost == nil {
		w.Lost = func(string, string, string) {}
	}
	for {
		kind, item, err := source.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		w.keep(kind.Name, item)
	}
	w.lose()
	document, err := w.document()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(document), encoder.Close()); err != nil {
		return err
	}
	// What a seed file may not have would be found by who applies it, too late.
	if _, err := Parse("the seed file", text.Bytes(), func(string) (string, bool) { return "", false }); err != nil {
		return err
	}
	_, err = to.Write(text.Bytes())
	return err
}

type writing struct {
	As
	items    map[string][]transfer.Item // by list
	entries  map[string][]*transferv1.TransferUserMetadata
	roles    map[string][]string // of users, in their organization
	order    []string            // of organizations
	orgs     map[string]*transferv1.TransferOrganization
	users    map[string]*transferv1.TransferUser
	projects map[string]*transferv1.TransferProject
}

func (w *writing) keep(kind string, item transfer.Item) {
	switch item := item.(type) {
	case *transferv1.TransferOrganization:
		w.order, w.orgs[item.GetId()] = append(w.order, item.GetId()), item
	case *transferv1.TransferUser:
		w.users[item.GetId()] = item
	case *transferv1.TransferProject:
		w.projects[item.GetId()] = item
	case *transferv1.TransferUserMetadata:
		w.entries[item.GetUserId()] = append(w.entries[item.GetUserId()], item)
	case *transferv1.TransferMembership:
		if item.GetLevel() == membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_ORG {
			w.roles[item.GetUserId()+"/"+item.GetObjectId()] = item.GetRoles()
		}
	}
	w.items[kind] = append(w.items[kind], item)
}

// lose reports what has no place in any seed file, or no organization in this one.
func (w *writing) lose() {
	for kind, reason := range map[string]string{
		"idps":           "a seed file has no identity providers",
		"idpLinks":       "a seed file has no accounts at identity providers",
		"authenticators": "a seed file has no second factors: the user adds them anew",
		"smtpProviders":  "a seed file has no providers of organizations",
		"smsProviders":   "a seed file has no providers of organizations",
	} {
		for _, item := range w.items[kind] {
			w.Lost(kind, item.(interface{ GetId() string }).GetId(), reason)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(w.items)) {
		for _, item := range w.items[kind] {
			if of, ok := item.(interface{ GetOrgId() string }); ok && w.orgs[of.GetOrgId()] == nil {
				w.Lost(kind, of.GetOrgId(), "its organization is not there")
			}
		}
	}
	if len(w.order) > 0 {
		w.Lost("organizations", w.order[0], "an export does not say which is the default one: it is the first, when the instance is new")
	}
}

// each calls do for the items of a list that an organization has.
func each[T interface{ GetOrgId() string }](w *writing, kind, org string, do func(T)) {
	for _, item := range w.items[kind] {
		if of, ok := item.(T); ok && of.GetOrgId() == org {
			do(of)
		}
	}
}

func (w *writing) document() (*yaml.Node, error) {
	var orgs []*yaml.Node
	for _, id := range w.granted() {
		orgs = append(orgs, w.head(id))
	}
	for _, id := range w.order {
		org, err := w.organization(id)
		if err != nil {
			return nil, fmt.Errorf("organization %q: %w", id, err)
		}
		orgs = append(orgs, org)
	}
	instance := mapping()
	put(instance, "name", w.Instance)
	put(instance, "domains", w.Domains)
	put(instance, "organizations", orgs)
	file := mapping()
	put(file, "instances", []*yaml.Node{instance})
	return file, nil
}

// granted are organizations that projects before them in the file are granted to. A seed file
// has them before, so they are there twice: by their name, and with what they have.
func (w *writing) granted() (before []string) {
	for _, item := range w.items["projectGrants"] {
		of := item.(*transferv1.TransferProjectGrant)
		granted, owner := slices.Index(w.order, of.GetGrantedOrgId()), slices.Index(w.order, of.GetOrgId())
		if granted > owner && !slices.Contains(before, of.GetGrantedOrgId()) {
			before = append(before, of.GetGrantedOrgId())
		}
	}
	if len(before) > 0 && !slices.Contains(before, w.order[0]) { // the first is the default one
		before = append([]string{w.order[0]}, before...)
	}
	return before
}

func (w *writing) head(id string) *yaml.Node {
	org := mapping()
	put(org, "id", id)
	put(org, "name", w.orgs[id].GetName())
	return org
}

func (w *writing) organization(id string) (*yaml.Node, error) {
	org := w.head(id)
	if w.orgs[id].GetState() == object.EffectiveState_EFFECTIVE_STATE_INACTIVE {
		w.Lost("organizations", id, "it is inactive; a seed file makes it active")
	}
	put(org, "domains", w.domains(id))
	if err := w.settings(org, id); err != nil {
		return nil, err
	}
	var users, projects, grants []*yaml.Node
	var failed error
	each(w, "users", id, func(of *transferv1.TransferUser) {
		user, err := w.user(of)
		failed = errors.Join(failed, err)
		users = append(users, user)
	})
	each(w, "projects", id, func(of *transferv1.TransferProject) {
		project, err := w.project(of)
		failed = errors.Join(failed, err)
		projects = append(projects, project)
	})
	each(w, "userGrants", id, func(of *transferv1.TransferUserGrant) {
		if grant := w.userGrant(of); grant != nil {
			grants = append(grants, grant)
		}
	})
	w.memberships(id)
	put(org, "users", users)
	put(org, "projects", projects)
	put(org, "user_grants", grants)
	return org, failed
}

// domains returns those of an organization, the primary one first. One below a domain of the
// instance, which nobody had to prove, is made with the organization: it is left out unless
// another would become the primary one by that.
func (w *writing) domains(org string) (names []string) {
	made := ""
	each(w, "domains", org, func(of *transferv1.TransferDomain) {
		switch {
		case !of.GetIsVerified():
			w.Lost("domains", of.GetDomain(), "it is not proven; those of a seed file are")
		case of.GetValidationType() == domainv3.ValidationType_VALIDATION_TYPE_UNSPECIFIED && slices.ContainsFunc(w.Domains, func(above string) bool { return strings.HasSuffix(of.GetDomain(), "."+above) }):
			if of.GetIsPrimary() {
				made = of.GetDomain()
			}
		case of.GetIsPrimary():
			names = append([]string{of.GetDomain()}, names...)
		default:
			names = append(names, of.GetDomain())
		}
	})
	if made != "" && len(names) > 0 {
		names = append([]string{made}, names...)
	}
	return names
}

// settings writes what an organization says itself, and the pictures of its branding.
func (w *writing) settings(org *yaml.Node, id string) error {
	texts := map[string]map[string]*yaml.Node{}
	var branding map[string]any
	each(w, "settings", id, func(of *transferv1.TransferSetting) {
		parts := strings.Split(of.GetSubject(), "/")
		switch {
		case of.GetSubject() == "branding":
			branding = of.GetProperties().AsMap()
		case slices.Contains([]string{"languages", "lifetimes", "applications"}, of.GetSubject()):
			put(org, of.GetSubject(), of.GetProperties().AsMap())
		case len(parts) == 3 && parts[0] == "message_texts":
			if texts[parts[1]] == nil {
				texts[parts[1]] = map[string]*yaml.Node{}
			}
			texts[parts[1]][parts[2]] = nodeOf(of.GetProperties().AsMap())
		default:
			w.Lost("settings", id+"/"+of.GetSubject(), "a seed file has no settings of this subject")
		}
	})
	for _, picture := range []string{"logoLight", "logoDark", "icon"} {
		delete(branding, picture) // where it is stored
	}
	each(w, "settingImages", id, func(of *transferv1.TransferSettingImage) {
		if len(of.GetContent()) > 512<<10 || branding == nil {
			w.Lost("settingImages", id+"/"+of.GetProperty(), "a seed file has pictures of at most 512 KiB")
			return
		}
		branding[of.GetProperty()] = map[string]any{"content": base64.StdEncoding.EncodeToString(of.GetContent())}
	})
	put(org, "branding", branding)
	all := mapping()
	for _, kind := range slices.Sorted(maps.Keys(texts)) {
		words := mapping()
		for _, language := range slices.Sorted(maps.Keys(texts[kind])) {
			put(words, language, texts[kind][language])
		}
		put(all, kind, words)
	}
	put(org, "message_texts", all)
	return nil
}

func (w *writing) user(of *transferv1.TransferUser) (*yaml.Node, error) {
	id := of.GetId()
	body := &userv3.User{Username: of.GetUsername(), Id: &id}
	if of.GetState() != userv3.UserState_USER_STATE_ACTIVE && of.GetState() != userv3.UserState_USER_STATE_UNSPECIFIED {
		w.Lost("users", id, "it is inactive or locked; a seed file makes it active")
	}
	if of.SchemaId != nil || len(of.GetData().GetFields()) > 0 {
		w.Lost("users", id, "without the data of its user schema: its ID is another where the file is applied")
	}
	if service := of.GetService(); service != nil {
		body.Type = &userv3.User_Service{Service: service}
	} else {
		human := proto.CloneOf(of.GetHuman())
		if proto.Size(human.GetAddress()) == 0 { // an export says of each that it is empty
			human.Address = nil
		}
		if human.GetEmail().GetAddress() == "" {
			human.Email = nil
		}
		if human.GetPhone().GetNumber() == "" {
			human.Phone = nil
		}
		if of.PasswordHash != nil {
			human.Password = &userv3.Password{Value: &userv3.Password_Hash{Hash: of.GetPasswordHash()}, ChangeRequired: of.GetPasswordChangeRequired()}
		} else {
			w.Lost("users", id, "there is no password: one is made up where the file is applied")
		}
		body.Type = &userv3.User_Human{Human: human}
	}
	user, err := messageOf(body)
	if err != nil {
		return nil, err
	}
	if of.GetService() != nil && of.SecretHash != nil {
		w.Lost("users", id, "its client secret is a new one: a seed file has no hashes of secrets")
		put(user, "secret", &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle})
	}
	metadata := mapping()
	for _, entry := range w.entries[id] {
		if value := entry.GetValue(); !utf8.Valid(value) {
			w.Lost("userMetadata", id+"/"+entry.GetId(), "a seed file has texts only")
		} else {
			metadata.Content = append(metadata.Content, nodeOf(entry.GetId()), nodeOf(string(value)))
		}
	}
	put(user, "metadata", metadata)
	put(user, "org_roles", w.roles[id+"/"+of.GetOrgId()])
	return user, nil
}

// memberships reports those that a seed file cannot say.
func (w *writing) memberships(org string) {
	each(w, "memberships", org, func(of *transferv1.TransferMembership) {
		name := of.GetUserId() + "/" + of.GetObjectId()
		if of.GetLevel() == membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT_GRANT {
			w.Lost("memberships", name, "a seed file has no members of grants")
		} else if w.users[of.GetUserId()].GetOrgId() != org {
			w.Lost("memberships", name, "a seed file has members of the same organization only")
		}
	})
}

func (w *writing) project(of *transferv1.TransferProject) (*yaml.Node, error) {
	id := of.GetId()
	project, err := messageOf(&projectv3.Project{
		Name: of.GetName(), Id: &id, ProjectRoleAssertion: of.GetProjectRoleAssertion(), ProjectRoleCheck: of.GetProjectRoleCheck(), HasProjectCheck: of.GetHasProjectCheck(),
	})
	if err != nil {
		return nil, err
	}
	if of.GetState() == object.EffectiveState_EFFECTIVE_STATE_INACTIVE {
		w.Lost("projects", id, "it is inactive; a seed file makes it active")
	}
	var roles, apps, members, grants []*yaml.Node
	each(w, "projectRoles", of.GetOrgId(), func(role *transferv1.TransferRole) {
		if role.GetProjectId() == id {
			node := mapping()
			put(node, "key", role.GetKey())
			put(node, "display_name", role.GetDisplayName())
			put(node, "group", role.GetGroup())
			roles = append(roles, node)
		}
	})
	var failed error
	each(w, "apps", of.GetOrgId(), func(app *transferv1.TransferApp) {
		if app.GetProjectId() == id {
			node, err := w.app(app)
			failed = errors.Join(failed, err)
			apps = append(apps, node)
		}
	})
	each(w, "memberships", of.GetOrgId(), func(member *transferv1.TransferMembership) {
		user := w.users[member.GetUserId()]
		if member.GetLevel() == membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT && member.GetObjectId() == id && user.GetOrgId() == of.GetOrgId() {
			node := mapping()
			put(node, "user", user.GetUsername())
			put(node, "roles", member.GetRoles())
			members = append(members, node)
		}
	})
	each(w, "projectGrants", of.GetOrgId(), func(grant *transferv1.TransferProjectGrant) {
		switch granted := w.orgs[grant.GetGrantedOrgId()]; {
		case grant.GetProjectId() != id:
		case granted == nil:
			w.Lost("projectGrants", grant.GetId(), "the organization that it is to is not there")
		default:
			if grant.GetState() == object.EffectiveState_EFFECTIVE_STATE_INACTIVE {
				w.Lost("projectGrants", grant.GetId(), "it is inactive; a seed file makes it active")
			}
			node := mapping()
			put(node, "organization", granted.GetName())
			node.Content = append(node.Content, nodeOf("role_keys"), nodeOf(grant.GetRoleKeys()))
			grants = append(grants, node)
		}
	})
	put(project, "roles", roles)
	put(project, "apps", apps)
	put(project, "members", members)
	put(project, "grants", grants)
	return project, failed
}

func (w *writing) app(of *transferv1.TransferApp) (*yaml.Node, error) {
	body := &appv3.App{Name: of.GetName()}
	method := of.GetApi().GetAuthMethodType()
	if oidc := of.GetOidc(); oidc != nil {
		body.Config, method = &appv3.App_Oidc{Oidc: oidc}, oidc.GetAuthMethodType()
	} else {
		body.Config = &appv3.App_Api{Api: of.GetApi()}
	}
	app, err := messageOf(body)
	if err != nil {
		return nil, err
	}
	w.Lost("apps", of.GetId(), "its ID and client ID are new ones: a seed file does not have them")
	if of.GetState() == object.EffectiveState_EFFECTIVE_STATE_INACTIVE {
		w.Lost("apps", of.GetId(), "it is inactive; a seed file makes it active")
	}
	put(app, "trusted", of.GetTrusted())
	put(app, "trusted_in_organization", of.GetTrustedInOrganization())
	switch method {
	case appv3.AuthMethodType_AUTH_METHOD_TYPE_BASIC, appv3.AuthMethodType_AUTH_METHOD_TYPE_POST, appv3.AuthMethodType_AUTH_METHOD_TYPE_SECRET, appv3.AuthMethodType_AUTH_METHOD_TYPE_UNSPECIFIED:
		w.Lost("apps", of.GetId(), "its client secret is a new one: a seed file has no hashes of secrets")
		put(app, "secret", &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle})
	case appv3.AuthMethodType_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT:
		w.Lost("apps", of.GetId(), "without its keys: an export does not have them")
	}
	return app, nil
}

func (w *writing) userGrant(of *transferv1.TransferUserGrant) *yaml.Node {
	user, project := w.users[of.GetUserId()], w.projects[of.GetProjectId()]
	switch {
	case project == nil || w.orgs[project.GetOrgId()] == nil:
		w.Lost("userGrants", of.GetId(), "its project is not there")
		return nil
	case user.GetOrgId() != of.GetOrgId():
		w.Lost("userGrants", of.GetId(), "a seed file has roles of users of the same organization only")
		return nil
	case of.GetState() == object.EffectiveState_EFFECTIVE_STATE_INACTIVE:
		w.Lost("userGrants", of.GetId(), "it is inactive")
		return nil
	}
	grant := mapping()
	put(grant, "user", user.GetUsername())
	if project.GetOrgId() != of.GetOrgId() {
		put(grant, "organization", w.orgs[project.GetOrgId()].GetName())
	}
	put(grant, "project", project.GetName())
	put(grant, "role_keys", of.GetRoleKeys())
	return grant
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }

// put adds a member to a mapping, unless there is nothing in it.
func put(to *yaml.Node, name string, value any) {
	node := nodeOf(value)
	if value == "" || value == false || node.Kind != yaml.ScalarNode && len(node.Content) == 0 && node.Style != yaml.FlowStyle {
		return
	}
	to.Content = append(to.Content, nodeOf(name), node)
}

// nodeOf returns a value as YAML. What a text has of variables is text.
func nodeOf(value any) *yaml.Node {
	node := &yaml.Node{}
	switch value := value.(type) {
	case *yaml.Node:
		return value
	case []*yaml.Node:
		return &yaml.Node{Kind: yaml.SequenceNode, Content: value}
	case string:
		node.SetString(strings.ReplaceAll(value, "${", "$${"))
	case []string:
		node.Kind = yaml.SequenceNode
		for _, one := range value {
			node.Content = append(node.Content, nodeOf(one))
		}
	case []any:
		node.Kind = yaml.SequenceNode
		for _, one := range value {
			node.Content = append(node.Content, nodeOf(one))
		}
	case map[string]any:
		node.Kind = yaml.MappingNode
		for _, name := range slices.Sorted(maps.Keys(value)) {
			node.Content = append(node.Content, nodeOf(name), nodeOf(value[name]))
		}
	default:
		_ = node.Encode(value) // numbers and truth
	}
	return node
}

// messageOf returns a message of the contract as YAML, its fields in their order.
func messageOf(m proto.Message) (*yaml.Node, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	plain(document.Content[0])
	return document.Content[0], nil
}

// plain has a node of JSON look like YAML.
func plain(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode {
		if node.Tag == "!!str" {
			*node = *nodeOf(node.Value)
		}
		return
	}
	node.Style = 0
	for _, child := range node.Content {
		plain(child)
	}
}
