package client

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"go.yaml.in/yaml/v4"

	"github.com/writ-id/writ/impl/core/key"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// SystemUser is who runs the installation: no row of the database, but a public key in its
// configuration. They call the resource API with JWTs that they sign themselves: issuer and
// subject are their name, the audience is the issuer of the instance that is called, iat and exp
// are an hour apart at most; typ is JWT or absent; RSA keys sign by RS256.
type SystemUser struct {
	Roles []string // of the system
	Keys  []crypto.PublicKey
}

// SystemUsers are those of an installation, by name.
type SystemUsers map[string]*SystemUser

// SystemUserPrefix is what the IDs of system users begin with, in events for example.
const SystemUserPrefix = "system:"

// No issuer of ours, which is an address, is such a name.
var systemName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ReadSystemUsers reads a YAML file of them:
//
//	automation:
//	  roles: [SYSTEM_OWNER]
//	  keys: [automation.pem] # public keys, PEM or JWK; paths are relative to the file
//
// roles are those that can be held on the system.
func ReadSystemUsers(path string, roles []string) (SystemUsers, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file map[string]struct {
		Roles []string `yaml:"roles"`
		Keys  []string `yaml:"keys"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	users := SystemUsers{}
	for name, entry := range file {
		user := &SystemUser{Roles: entry.Roles}
		switch {
		case !systemName.MatchString(name):
			return nil, fmt.Errorf("%s: %q is no name: letters, digits, dots, hyphens and underscores, 64 at most", path, name)
		case len(entry.Roles) == 0 || len(entry.Keys) == 0:
			return nil, fmt.Errorf("%s: %s: roles and keys have to be named", path, name)
		}
		for _, role := range entry.Roles {
			if !slices.Contains(roles, role) {
				return nil, fmt.Errorf("%s: %s: roles: %q is none of %v", path, name, role, roles)
			}
		}
		for _, at := range entry.Keys {
			if !filepath.IsAbs(at) {
				at = filepath.Join(filepath.Dir(path), at)
			}
			text, err := os.ReadFile(at)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: keys: %w", path, name, err)
			}
			public, _, err := key.Parse(string(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %s: keys: %s: %w", path, name, at, err)
			}
			user.Keys = append(user.Keys, public)
		}
		users[name] = user
	}
	return users, nil
}

// SystemUser returns who signed a token, and until when it is good; nil when it is of no
// system user, or not good. Unlike an assertion it is a bearer token, which counts until
// then.
func (d *Directory) SystemUser(at endpoint.Site, text string) (name string, user *SystemUser, until time.Time) {
	if len(d.System) == 0 {
		return "", nil, until
	}
	jwt, err := token.ParseJWT(text)
	if err != nil {
		return "", nil, until
	}
	name, _ = jwt.Claims.Text("iss")
	user = d.System[name]
	if user == nil {
		return "", nil, until
	}
	// Each key is good with one algorithm (RFC 8725, section 3.1), and a token says what it is and
	// since when, so that nothing that was signed for another purpose, or long ago, is one.
	begin, ok := jwt.Claims.Time("iat")
	if jwt.Algorithm == signing.Algorithm(jwa.PS256().String()) || jwt.Type != "" && !jwt.IsType(signing.IDToken) || !ok {
		return "", nil, until
	}
	for _, public := range user.Keys {
		if end, ok := d.good(at, text, jwt, public, name); ok {
			if end.After(begin.Add(assertionLife)) {
				return "", nil, until
			}
			return name, user, end
		}
	}
	return "", nil, until
}
