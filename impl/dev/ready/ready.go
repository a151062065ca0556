// Package ready says to scripts how to reach a server in development: what a seed came to, as
// the ready file has it.
package ready

import (
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/writ-id/writ/impl/dev/seed"
)

// Info is the content of the ready file. Its keys are a fixed interface.
type Info struct {
	Issuer        string            `json:"issuer"`
	Addr          string            `json:"addr"`
	InstanceID    string            `json:"instance_id"`
	OrgID         string            `json:"org_id"`
	ProjectID     string            `json:"project_id"`
	AdminToken    string            `json:"admin_token"`
	ViewerToken   string            `json:"viewer_token"`
	OrgOwnerToken string            `json:"org_owner_token"`
	NobodyToken   string            `json:"nobody_token"`
	SystemToken   string            `json:"system_token"`
	User          *User             `json:"user,omitempty"`
	ServiceUser   *Client           `json:"service_user,omitempty"`
	Clients       map[string]Client `json:"clients"`
	// CAFile is the certificate that clients of an https issuer have to trust, in PEM.
	CAFile string `json:"ca_file,omitempty"`
}

// User is a person.
type User struct {
	ID        string `json:"id"`
	LoginName string `json:"login_name"`
	Password  string `json:"password"`
	Email     string `json:"email"`
}

// Client is a client of the token endpoint: an app or a service user.
type Client struct {
	ClientID              string `json:"client_id"`
	ClientSecret          string `json:"client_secret,omitempty"`
	KeyFile               string `json:"key_file,omitempty"`
	RedirectURI           string `json:"redirect_uri,omitempty"`
	PostLogoutRedirectURI string `json:"post_logout_redirect_uri,omitempty"`
}

// New picks from what a seed came to the first of each kind. Key files
// are written to dir.
func New(issuer string, addr net.Addr, applied *seed.Applied, dir string) (Info, error) {
	info := Info{Issuer: issuer, Addr: addr.String(), Clients: map[string]Client{}}
	first := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	for _, user := range applied.Users {
		has := func(role string) bool { return slices.Contains(user.Roles, role) }
		first(&info.InstanceID, user.InstanceID)
		first(&info.OrgID, user.OrgID)
		switch {
		case user.Human && info.User == nil:
			info.User = &User{user.ID, user.LoginName, user.Password, user.Email}
		case has("SYSTEM_OWNER"):
			first(&info.SystemToken, user.Token)
		case has("IAM_OWNER"):
			first(&info.AdminToken, user.Token)
		case has("IAM_OWNER_VIEWER"):
			first(&info.ViewerToken, user.Token)
		case has("ORG_OWNER"):
			first(&info.OrgOwnerToken, user.Token)
		case user.Token != "" && len(user.Roles) == 0:
			first(&info.NobodyToken, user.Token)
		}
		if user.Secret != "" && info.ServiceUser == nil {
			file, err := keyFile(dir, user.Username, user.Key)
			if err != nil {
				return info, err
			}
			info.ServiceUser = &Client{ClientID: user.Username, ClientSecret: user.Secret, KeyFile: file}
		}
	}
	for _, project := range applied.Projects[:min(1, len(applied.Projects))] {
		info.ProjectID = project.ID
		for _, app := range project.Apps {
			file, err := keyFile(dir, app.Name, app.Key)
			if err != nil {
				return info, err
			}
			info.Clients[app.Name] = Client{
				app.ClientID, app.Secret, file, firstOf(app.RedirectURIs), firstOf(app.PostLogoutRedirectURIs),
			}
		}
	}
	return info, nil
}

// Confidential returns the client with a secret that web applications use: web, else the
// first by name.
func (i Info) Confidential() (Client, bool) {
	names := slices.Sorted(maps.Keys(i.Clients))
	for _, name := range append([]string{"web"}, names...) {
		if client := i.Clients[name]; client.ClientSecret != "" && client.RedirectURI != "" {
			return client, true
		}
	}
	return Client{}, false
}

// ClientIDs returns the client IDs of the clients, by their names.
func (i Info) ClientIDs() map[string]string {
	ids := map[string]string{}
	for name, client := range i.Clients {
		ids[name] = client.ClientID
	}
	return ids
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// keyFile writes a key to dir and returns its path, "" when there is none.
func keyFile(dir, name, key string) (string, error) {
	if key == "" {
		return "", nil
	}
	path := filepath.Join(dir, "key-"+name+".json")
	return path, WriteText(path, []byte(key))
}

// WriteFile writes JSON so that the file, once there, is complete.
func WriteFile(path string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return WriteText(path, append(text, '\n'))
}

// WriteText writes a file that only its owner reads, whole or not at all.
func WriteText(path string, text []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".writ-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // fails once it was renamed
	if _, err := temporary.Write(text); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
