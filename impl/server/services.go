package server

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/devapi"
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

	all []service
	common
}

// common is what services over any Env share: reading it of the contract takes a while.
type common struct {
	roles      *policy.Roles
	targets    *webhook.Caller
	courier    *courier.Courier
	sealer     secret.Sealer
	operations *policy.Operations
	rules      *policy.Validator
}

// service is one of them.
type service struct {
	description *grpc.ServiceDesc
	server      any
	mount       func(*wire.Transports, grpc.UnaryServerInterceptor)
}

// serve ties an implementation to what is generated for its service.
func serve[S any](description *grpc.ServiceDesc, mount func(*wire.Transports, S, grpc.UnaryServerInterceptor), server S) service {
	return service{description, server, func(to *wire.Transports, chain grpc.UnaryServerInterceptor) { mount(to, server, chain) }}
}

// NewServices reads what is common of the contract and makes all services over env. What
// is served is what conditions can name, what the reference page lists and what
// reflection shows.
func NewServices(env resource.Env, roles *policy.Roles, targets *webhook.Caller, sealer secret.Sealer) (*Services, error) {
	shared, err := contract()
	if err != nil {
		return nil, err
	}
	c := common{roles: roles, targets: targets, courier: courier.New(targets.Out, targets.Now), sealer: sealer, operations: shared.operations, rules: shared.rules}
	return c.over(env), nil
}

// contract is what all servers of a process share: what reading the contract came to.
var contract = sync.OnceValues(func() (common, error) {
	names := []string{actionv3.ServiceActions_ServiceDesc.ServiceName}
	var c common
	nobody := common{roles: &policy.Roles{}, targets: &webhook.Caller{}, sealer: secret.NoKey{}}
	for _, one := range nobody.others(resource.Env{}).all {
		names = append(names, one.description.ServiceName)
	}
	var err error
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
				text, err := devapi.GetSpecJSON()
				if err != nil {
					return nil, err
				}
				further = append(further, text)
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

// over makes all services over env.
func (c common) over(env resource.Env) *Services {
	s := c.others(env)
	// It knows all of them: executions are about operations.
	s.all = append(s.all, serve[actionv3.ServiceActionsServer](&actionv3.ServiceActions_ServiceDesc, actionv3.MountServiceActions, action.New(env, c.operations, c.targets, c.sealer)))
	return s
}

// others makes the services that know nothing of operations: one line each.
func (c common) others(env resource.Env) *Services {
	roles := c.roles
	domains, memberships, factors := domain.New(env, c.targets.Out), membership.New(env, roles), authenticator.NewFactors(env, c.sealer)
	orgs, users, apps := org.New(env, domains), user.New(env), app.New(env)
	sessions, links, idps := session.New(env, factors, users), idplink.New(env), idp.New(env, c.sealer)
	owners := instance.Owners{Domains: domains, Orgs: orgs, Users: users, Memberships: memberships}
	carriers := provider.Config{Env: env, Sealer: c.sealer, Courier: c.courier, Caller: c.targets}
	smtp, sms := provider.NewSMTP(carriers), provider.NewSMS(carriers)
	return &Services{common: c, Sessions: sessions, Users: users, Apps: apps, IDPs: idps, Links: links, SMTP: smtp, SMS: sms, all: []service{
		serve[appv3.ServiceAppsServer](&appv3.ServiceApps_ServiceDesc, appv3.MountServiceApps, apps),
		serve[authenticatorv3.ServiceUserAuthenticatorsServer](&authenticatorv3.ServiceUserAuthenticators_ServiceDesc, authenticatorv3.MountServiceUserAuthenticators, authenticator.New(env, factors)),
		serve[settingsv3.ServiceApplicationSettingsServer](&settingsv3.ServiceApplicationSettings_ServiceDesc, settingsv3.MountServiceApplicationSettings, appsetting.New(env)),
		serve[settingsv3.ServiceBrandingSettingsServer](&settingsv3.ServiceBrandingSettings_ServiceDesc, settingsv3.MountServiceBrandingSettings, branding.New(env)),
		serve[settingsv3.ServiceLifetimeSettingsServer](&settingsv3.ServiceLifetimeSettings_ServiceDesc, settingsv3.MountServiceLifetimeSettings, lifetime.New(env)),
		serve[settingsv3.ServiceMessageTextSettingsServer](&settingsv3.ServiceMessageTextSettings_ServiceDesc, settingsv3.MountServiceMessageTextSettings, message.NewTexts(env)),
		serve[actionv3.ServiceDeliveriesServer](&actionv3.ServiceDeliveries_ServiceDesc, actionv3.MountServiceDeliveries, delivery.New(env)),
		serve[domainv3.ServiceDomainsServer](&domainv3.ServiceDomains_ServiceDesc, domainv3.MountServiceDomains, domains),
		serve[eventv3.ServiceEventsServer](&eventv3.ServiceEvents_ServiceDesc, eventv3.MountServiceEvents, audit.New(env)),
		serve[featurev2.ServiceFeaturesServer](&featurev2.ServiceFeatures_ServiceDesc, featurev2.MountServiceFeatures, feature.New(env)),
		serve[grantv3.ServiceGrantsServer](&grantv3.ServiceGrants_ServiceDesc, grantv3.MountServiceGrants, grant.New(env)),
		serve[idpv3.ServiceIdentityProvidersServer](&idpv3.ServiceIdentityProviders_ServiceDesc, idpv3.MountServiceIdentityProviders, idps),
		serve[idpv3.ServiceUserIDPLinksServer](&idpv3.ServiceUserIDPLinks_ServiceDesc, idpv3.MountServiceUserIDPLinks, links),
		serve[instancev3.ServiceInstancesServer](&instancev3.ServiceInstances_ServiceDesc, instancev3.MountServiceInstances, instance.New(env, owners, roles)),
		serve[languagev3.ServiceLanguageSettingsServer](&languagev3.ServiceLanguageSettings_ServiceDesc, languagev3.MountServiceLanguageSettings, language.New(env)),
		serve[membershipv3.ServiceMembershipsServer](&membershipv3.ServiceMemberships_ServiceDesc, membershipv3.MountServiceMemberships, memberships),
		serve[messagev3.ServiceMessagesServer](&messagev3.ServiceMessages_ServiceDesc, messagev3.MountServiceMessages, outbox.New(env)),
		serve[orgv3.ServiceOrganizationsServer](&orgv3.ServiceOrganizations_ServiceDesc, orgv3.MountServiceOrganizations, orgs),
		serve[projectv3.ServiceProjectsServer](&projectv3.ServiceProjects_ServiceDesc, projectv3.MountServiceProjects, project.New(env, memberships)),
		serve[schemav3.ServiceUserSchemasServer](&schemav3.ServiceUserSchemas_ServiceDesc, schemav3.MountServiceUserSchemas, schema.New(env)),
		serve[sessionv3.ServiceSessionsServer](&sessionv3.ServiceSessions_ServiceDesc, sessionv3.MountServiceSessions, sessions),
		serve[smsv3.ServiceSMSProvidersServer](&smsv3.ServiceSMSProviders_ServiceDesc, smsv3.MountServiceSMSProviders, sms),
		serve[smtpv3.ServiceSMTPProvidersServer](&smtpv3.ServiceSMTPProviders_ServiceDesc, smtpv3.MountServiceSMTPProviders, smtp),
		serve[userv3.ServiceUsersServer](&userv3.ServiceUsers_ServiceDesc, userv3.MountServiceUsers, users),
	}}
}

func (s *Services) mount(to *wire.Transports, chain grpc.UnaryServerInterceptor) {
	for _, one := range s.all {
		one.mount(to, chain)
	}
}

// Call calls a method, by "/package.Service/Method", without the chain: the call
// is in ctx (policy.As). The request has to keep the rules of the contract.
func (s *Services) Call(ctx context.Context, method string, req proto.Message) (proto.Message, error) {
	if err := s.rules.Check(req); err != nil {
		return nil, err
	}
	name, rpc, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for _, one := range s.all {
		if one.description.ServiceName != name {
			continue
		}
		for i := range one.description.Methods {
			if one.description.Methods[i].MethodName != rpc {
				continue
			}
			res, err := one.description.Methods[i].Handler(one.server, ctx, func(into any) error {
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
