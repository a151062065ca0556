package server

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/openapi"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	authenticatorv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	domainv3 "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	grantv3 "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	instancev3 "github.com/writ-id/writ/gen/proto/writ/instance/v3alpha"
	languagev3 "github.com/writ-id/writ/gen/proto/writ/language/v3alpha"
	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	messagev3 "github.com/writ-id/writ/gen/proto/writ/message/v3alpha"
	orgv3 "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	schemav3 "github.com/writ-id/writ/gen/proto/writ/schema/v3alpha"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	settingsv3 "github.com/writ-id/writ/gen/proto/writ/settings/v3alpha"
	smsv3 "github.com/writ-id/writ/gen/proto/writ/sms/v3alpha"
	smtpv3 "github.com/writ-id/writ/gen/proto/writ/smtp/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/action"
	"github.com/writ-id/writ/impl/api/app"
	"github.com/writ-id/writ/impl/api/appsetting"
	"github.com/writ-id/writ/impl/api/audit"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/api/branding"
	"github.com/writ-id/writ/impl/api/delivery"
	"github.com/writ-id/writ/impl/api/domain"
	"github.com/writ-id/writ/impl/api/feature"
	"github.com/writ-id/writ/impl/api/grant"
	"github.com/writ-id/writ/impl/api/idp"
	"github.com/writ-id/writ/impl/api/idplink"
	"github.com/writ-id/writ/impl/api/instance"
	"github.com/writ-id/writ/impl/api/language"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/api/membership"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/api/org"
	"github.com/writ-id/writ/impl/api/outbox"
	"github.com/writ-id/writ/impl/api/project"
	"github.com/writ-id/writ/impl/api/provider"
	"github.com/writ-id/writ/impl/api/schema"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/core/wire"
	"github.com/writ-id/writ/impl/oidc/login/rule"
	"github.com/writ-id/writ/impl/server/reference"
)

// Services are the implementations of the services of the contract. A server
// mounts them behind its chain; what applies a seed calls them as the product
// itself (policy.As).
type Services struct {
	Sessions *session.Service
	Users    *user.Service
	Apps     *app.Service
	SMTP     *provider.SMTP
	SMS      *provider.SMS
	IDPs     *idp.Service
	Links    *idplink.Service

	all []any // of contracted
	ServicesConfig
	common
}

// ServicesConfig holds what Services need.
type ServicesConfig struct {
	resource.Env
	Roles   *policy.Roles
	Targets *webhook.Caller
	Courier *courier.Courier
	Sealer  secret.Sealer
	// MaxHashCost and Hashes are those of Config.
	MaxHashCost float64
	Hashes      secret.Hasher
}

// common is what all servers of a process share: what reading the contract came to.
type common struct {
	operations *policy.Operations
	rules      *policy.Validator
}

// parts are what services are made of: services too.
type parts struct {
	*Services
	domains     *domain.Service
	memberships *membership.Service
	factors     *authenticator.Factors
	orgs        *org.Service
}

// contracted are the services of the contract: what conditions can name, what the reference page
// lists and what reflection shows.
var contracted = [...]service{
	serve(&actionv3.ServiceActions_ServiceDesc, actionv3.MountServiceActions, func(p *parts) actionv3.ServiceActionsServer {
		return action.New(p.Env, p.operations, p.Targets, p.Sealer)
	}),
	serve(&appv3.ServiceApps_ServiceDesc, appv3.MountServiceApps, func(p *parts) appv3.ServiceAppsServer { return p.Apps }),
	serve(&authenticatorv3.ServiceUserAuthenticators_ServiceDesc, authenticatorv3.MountServiceUserAuthenticators, func(p *parts) authenticatorv3.ServiceUserAuthenticatorsServer {
		return authenticator.New(p.Env, p.factors)
	}),
	serve(&settingsv3.ServiceApplicationSettings_ServiceDesc, settingsv3.MountServiceApplicationSettings, func(p *parts) settingsv3.ServiceApplicationSettingsServer { return appsetting.New(p.Env) }),
	serve(&settingsv3.ServiceBrandingSettings_ServiceDesc, settingsv3.MountServiceBrandingSettings, func(p *parts) settingsv3.ServiceBrandingSettingsServer { return branding.New(p.Env) }),
	serve(&settingsv3.ServiceLifetimeSettings_ServiceDesc, settingsv3.MountServiceLifetimeSettings, func(p *parts) settingsv3.ServiceLifetimeSettingsServer { return lifetime.New(p.Env) }),
	serve(&settingsv3.ServiceMessageTextSettings_ServiceDesc, settingsv3.MountServiceMessageTextSettings, func(p *parts) settingsv3.ServiceMessageTextSettingsServer { return message.NewTexts(p.Env) }),
	serve(&actionv3.ServiceDeliveries_ServiceDesc, actionv3.MountServiceDeliveries, func(p *parts) actionv3.ServiceDeliveriesServer { return delivery.New(p.Env) }),
	serve(&domainv3.ServiceDomains_ServiceDesc, domainv3.MountServiceDomains, func(p *parts) domainv3.ServiceDomainsServer { return p.domains }),
	serve(&eventv3.ServiceEvents_ServiceDesc, eventv3.MountServiceEvents, func(p *parts) eventv3.ServiceEventsServer { return audit.New(p.Env) }),
	serve(&featurev2.ServiceFeatures_ServiceDesc, featurev2.MountServiceFeatures, func(p *parts) featurev2.ServiceFeaturesServer { return feature.New(p.Env) }),
	serve(&grantv3.ServiceGrants_ServiceDesc, grantv3.MountServiceGrants, func(p *parts) grantv3.ServiceGrantsServer { return grant.New(p.Env) }),
	serve(&idpv3.ServiceIdentityProviders_ServiceDesc, idpv3.MountServiceIdentityProviders, func(p *parts) idpv3.ServiceIdentityProvidersServer { return p.IDPs }),
	serve(&idpv3.ServiceUserIDPLinks_ServiceDesc, idpv3.MountServiceUserIDPLinks, func(p *parts) idpv3.ServiceUserIDPLinksServer { return p.Links }),
	serve(&instancev3.ServiceInstances_ServiceDesc, instancev3.MountServiceInstances, func(p *parts) instancev3.ServiceInstancesServer { return instance.New(p.Env, p.owners(), p.Roles) }),
	serve(&languagev3.ServiceLanguageSettings_ServiceDesc, languagev3.MountServiceLanguageSettings, func(p *parts) languagev3.ServiceLanguageSettingsServer { return language.New(p.Env) }),
	serve(&membershipv3.ServiceMemberships_ServiceDesc, membershipv3.MountServiceMemberships, func(p *parts) membershipv3.ServiceMembershipsServer { return p.memberships }),
	serve(&messagev3.ServiceMessages_ServiceDesc, messagev3.MountServiceMessages, func(p *parts) messagev3.ServiceMessagesServer { return outbox.New(p.Env) }),
	serve(&orgv3.ServiceOrganizations_ServiceDesc, orgv3.MountServiceOrganizations, func(p *parts) orgv3.ServiceOrganizationsServer { return p.orgs }),
	serve(&projectv3.ServiceProjects_ServiceDesc, projectv3.MountServiceProjects, func(p *parts) projectv3.ServiceProjectsServer { return project.New(p.Env, p.memberships) }),
	serve(&schemav3.ServiceUserSchemas_ServiceDesc, schemav3.MountServiceUserSchemas, func(p *parts) schemav3.ServiceUserSchemasServer { return schema.New(p.Env) }),
	serve(&sessionv3.ServiceSessions_ServiceDesc, sessionv3.MountServiceSessions, func(p *parts) sessionv3.ServiceSessionsServer { return p.Sessions }),
	serve(&smsv3.ServiceSMSProviders_ServiceDesc, smsv3.MountServiceSMSProviders, func(p *parts) smsv3.ServiceSMSProvidersServer { return p.SMS }),
	serve(&smtpv3.ServiceSMTPProviders_ServiceDesc, smtpv3.MountServiceSMTPProviders, func(p *parts) smtpv3.ServiceSMTPProvidersServer { return p.SMTP }),
	serve(&userv3.ServiceUsers_ServiceDesc, userv3.MountServiceUsers, func(p *parts) userv3.ServiceUsersServer { return p.Users }),
}

// service is one of them.
type service struct {
	description *grpc.ServiceDesc
	make        func(*parts) any
	mount       func(to *wire.Transports, server any, chain grpc.UnaryServerInterceptor)
}

// serve ties an implementation to what is generated for its service.
func serve[S any](description *grpc.ServiceDesc, mount func(*wire.Transports, S, grpc.UnaryServerInterceptor), made func(*parts) S) service {
	return service{
		description, func(p *parts) any { return made(p) },
		func(to *wire.Transports, server any, chain grpc.UnaryServerInterceptor) { mount(to, server.(S), chain) },
	}
}

// NewServices makes all services.
func NewServices(c ServicesConfig) (*Services, error) {
	shared, err := contract()
	if err != nil {
		return nil, err
	}
	factors, users := authenticator.NewFactors(c.Env, c.Sealer), user.New(user.Config{Env: c.Env, MaxHashCost: c.MaxHashCost, Hashes: c.Hashes})
	carriers := provider.Config{Env: c.Env, Sealer: c.Sealer, Courier: c.Courier, Caller: c.Targets}
	s := &Services{
		ServicesConfig: c, common: shared,
		Sessions: session.New(c.Env, factors, users), Users: users, Apps: app.New(c.Env), IDPs: idp.New(c.Env, c.Sealer), Links: idplink.New(c.Env),
		SMTP: provider.NewSMTP(carriers), SMS: provider.NewSMS(carriers),
	}
	domains := domain.New(c.Env, c.Targets.Out)
	p := &parts{Services: s, domains: domains, memberships: membership.New(c.Env, c.Roles), factors: factors, orgs: org.New(c.Env, domains)}
	for _, one := range contracted {
		s.all = append(s.all, one.make(p))
	}
	return s, nil
}

func (p *parts) owners() instance.Owners {
	return instance.Owners{Domains: p.domains, Orgs: p.orgs, Users: p.Users, Memberships: p.memberships}
}

// contract reads what is common.
var contract = sync.OnceValues(func() (c common, err error) {
	var names []string
	for _, one := range contracted {
		names = append(names, one.description.ServiceName)
	}
	if c.operations, err = policy.NewOperations(names...); err != nil {
		return c, err
	}
	c.rules, err = policy.NewValidator(c.operations)
	return c, err
})

// published is the contract as it is shown, one for all servers of a process; in
// development with the operations that only it has.
var published = func() func(policy.SearchLimits, bool) (*reference.Handler, error) {
	type shown struct {
		limits      policy.SearchLimits
		development bool
	}
	var mu sync.Mutex
	made := map[shown]*reference.Handler{}
	return func(limits policy.SearchLimits, development bool) (*reference.Handler, error) {
		mu.Lock()
		defer mu.Unlock()
		as := shown{limits, development}
		if made[as] == nil {
			var further [][]byte
			if development {
				further = append(further, openapi.Development)
			}
			handler, err := reference.New(limits, further...)
			if err != nil {
				return nil, err
			}
			made[as] = handler
		}
		return made[as], nil
	}
}()

// Prepare reads the contract, as development shows it, beside what else a start has to wait for. Who starts a
// server without it waits then.
func Prepare() {
	_, _ = contract() // who needs it gets the error
	_, _ = published(policy.SearchLimits{}.OrDefault(), true)
	rule.Prepare()
}

func (s *Services) mount(to *wire.Transports, chain grpc.UnaryServerInterceptor) {
	for i, one := range contracted {
		one.mount(to, s.all[i], chain)
	}
}

// Call calls a method, by "/package.Service/Method", without the chain: the call
// is in ctx (policy.As). The request has to keep the rules of the contract.
func (s *Services) Call(ctx context.Context, method string, req proto.Message) (proto.Message, error) {
	if err := s.rules.Check(req); err != nil {
		return nil, err
	}
	name, rpc, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for n, one := range contracted {
		if one.description.ServiceName != name {
			continue
		}
		for i := range one.description.Methods {
			if one.description.Methods[i].MethodName != rpc {
				continue
			}
			res, err := one.description.Methods[i].Handler(s.all[n], ctx, func(into any) error {
				proto.Merge(into.(proto.Message), req)
				return nil
			}, nil)
			if err != nil {
				return nil, err
			}
			return res.(proto.Message), nil
		}
	}
	return nil, fmt.Errorf("server: there is no method %s", method)
}
