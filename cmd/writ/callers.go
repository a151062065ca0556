package main

import (
	"errors"
	"fmt"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/server"
)

// What the flags say of who calls a node: its own users, and proxies.

func (f *nodeFlags) readSystemUsers(c *server.Config) error {
	if f.systemUsers == "" {
		return nil
	}
	roles, err := policy.NewRoles()
	if err != nil {
		return err
	}
	c.SystemUsers, err = client.ReadSystemUsers(f.systemUsers, roles.Names(policyv1.Level_LEVEL_SYSTEM))
	return err
}

// trust reads what the flags say of reverse proxies.
func (f *nodeFlags) trust(proxies *server.Proxies) error {
	for _, text := range f.proxies {
		network, err := server.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--trusted-proxies: %w", err)
		}
		proxies.Trusted = append(proxies.Trusted, network)
	}
	proxies.Protocol, proxies.Forwarded = f.proxyProtocol, f.proxyHeader == "forwarded"
	switch {
	case f.proxyHeader != "x-forwarded" && f.proxyHeader != "forwarded":
		return fmt.Errorf("--proxy-header: %q is neither x-forwarded nor forwarded", f.proxyHeader)
	case len(proxies.Trusted) == 0 && (proxies.Protocol || proxies.Forwarded):
		return errors.New("--proxy-header and --proxy-protocol say what the proxies of --trusted-proxies send, and there are none")
	}
	return nil
}
