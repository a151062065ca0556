package seed

import (
	"context"
	"fmt"
	"maps"
	"slices"

	instancev3 "github.com/writ-id/writ/gen/proto/writ/instance/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
)

// place is where in the hierarchy, and in the file, something belongs.
type place struct {
	policy.Context
	path string
}

func (r *run) instance(ctx context.Context, instance Instance) error {
	system := r.in(ctx, policy.Context{Level: policyv1.Level_LEVEL_SYSTEM})
	id, err := r.queries.InstanceByName(ctx, r.tx, instance.Name)
	switch {
	case store.NoRow(err):
		if id, err = r.createInstance(system, instance); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := checkID(instance.ID, id); err != nil {
		return err
	}
	at := place{policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: id}, "instances." + instance.Name}
	inside := r.in(ctx, at.Context)
	if err := r.domains(inside, instance.Domains); err != nil {
		return err
	}
	if err := r.features(inside, "Instance", instance.Features); err != nil {
		return err
	}
	if instance.AllowRegistration != nil {
		patch := Body{"id": id, "instance": Body{"allow_registration": *instance.AllowRegistration}}
		if _, err := r.call(system, kind{service: "writ.instance.v3alpha.ServiceInstances"}, "PatchInstance", patch); err != nil {
			return err
		}
	}
	if len(instance.Limits) > 0 {
		if _, err := r.call(system, kind{service: "writ.instance.v3alpha.ServiceInstances"}, "Limit", Body{"id": id, "limits": instance.Limits}); err != nil {
			return err
		}
	}
	if err := r.settings(inside, instance.Settings); err != nil {
		return err
	}
	if err := r.actions(inside, at.path, instance); err != nil {
		return err
	}
	if err := r.providers(inside, at.path+".smtp_providers.", smtpProviders, instance.SMTPProviders); err != nil {
		return err
	}
	if err := r.providers(inside, at.path+".sms_providers.", smsProviders, instance.SMSProviders); err != nil {
		return err
	}
	for _, schema := range instance.UserSchemas {
		if _, _, err := r.ensure(inside, userSchemas, schema, Body{"type": Body{"text": schema["type"]}}); err != nil {
			return fmt.Errorf("user schema %q: %w", schema["type"], err)
		}
	}
	for _, org := range instance.Organizations {
		if err := r.organization(ctx, at, org); err != nil {
			return fmt.Errorf("organization %q: %w", org.Name, err)
		}
	}
	return r.userGrants(ctx, at, instance) // they may name projects of any organization
}

// createInstance creates an instance with its first domain and its default
// organization.
func (r *run) createInstance(ctx context.Context, instance Instance) (string, error) {
	body := Body{"name": instance.Name}
	if instance.ID != "" {
		body["id"] = instance.ID
	}
	if len(instance.Domains) > 0 {
		body["domain"] = instance.Domains[0]
	}
	for i, org := range instance.Organizations {
		if org.Default || i == 0 {
			body["organization_name"] = org.Name
			if org.ID != "" {
				body["organization_id"] = org.ID
			}
		}
	}
	answer, err := r.call(ctx, kind{service: "writ.instance.v3alpha.ServiceInstances"}, "CreateInstance", Body{"instance": body})
	if err != nil {
		return "", err
	}
	return answer.(*instancev3.CreateInstanceResponse).GetDetails().GetId(), nil
}

// domains makes domains of the context exist, the first one as the primary. What
// the product adds is proven.
func (r *run) domains(ctx context.Context, names []string) error {
	for i, name := range names {
		id, _, err := r.ensure(ctx, domains, Body{"domain": name}, Body{"domain": Body{"text": name}})
		if err == nil && i == 0 {
			_, err = r.call(ctx, domains, "SetAsPrimary", Body{"id": id})
		}
		if err != nil {
			return fmt.Errorf("domain %q: %w", name, err)
		}
	}
	return nil
}

// settings has a context say what the file says; what the file leaves out stays.
func (r *run) settings(ctx context.Context, settings Settings) error {
	set := func(service, operation string, request Body) error {
		_, err := r.call(ctx, kind{service: "writ." + service}, operation, request)
		return err
	}
	for _, one := range []struct {
		name, service, operation string
		says                     Body
	}{
		{"languages", "language.v3alpha.ServiceLanguageSettings", "SetLanguages", settings.Languages},
		{"branding", "settings.v3alpha.ServiceBrandingSettings", "SetBranding", settings.Branding},
		{"lifetimes", "settings.v3alpha.ServiceLifetimeSettings", "SetLifetimes", settings.Lifetimes},
		{"applications", "settings.v3alpha.ServiceApplicationSettings", "SetApplicationSettings", settings.Applications},
	} {
		if len(one.says) == 0 {
			continue
		}
		if err := set(one.service, one.operation, Body{"settings": one.says}); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings.MessageTexts)) {
		for _, language := range slices.Sorted(maps.Keys(settings.MessageTexts[name])) {
			request := Body{"kind": name, "language": language, "settings": settings.MessageTexts[name][language]}
			if err := set("settings.v3alpha.ServiceMessageTextSettings", "SetMessageText", request); err != nil {
				return fmt.Errorf("message text %q in %q: %w", name, language, err)
			}
		}
	}
	return nil
}

// providers makes providers of messages exist, and the one that says so active.
func (r *run) providers(ctx context.Context, path string, k kind, providers []Provider) error {
	for _, one := range providers {
		name, _ := one.Body["name"].(string)
		id, answer, err := r.ensure(ctx, k, one.Body, Body{"name": Body{"name": name}})
		if err == nil && one.Active {
			_, err = r.call(ctx, k, "Activate"+k.name, Body{"id": id})
		}
		if err != nil {
			return fmt.Errorf("provider %q: %w", name, err)
		}
		if at := path + name + ".signing_key"; text(answer, "signing_key") != "" {
			r.keep(at, text(answer, "signing_key"))
		} else if known := r.Known[at]; known != "" {
			r.applied.Secrets[at] = known
		}
	}
	return nil
}

// actions makes targets and executions exist. Executions name targets by name. The key
// that a new target signs with is told, as its receiver needs it.
func (r *run) actions(ctx context.Context, path string, instance Instance) error {
	ids := map[any]string{}
	for _, target := range instance.Targets {
		id, answer, err := r.ensure(ctx, targets, target, Body{"name": Body{"name": target["name"]}})
		if err != nil {
			return fmt.Errorf("target %q: %w", target["name"], err)
		}
		ids[target["name"]] = id
		at := fmt.Sprintf("%s.targets.%s.signing_key", path, target["name"])
		if answer != nil && text(answer, "signing_key") != "" {
			r.keep(at, text(answer, "signing_key"))
		} else if known := r.Known[at]; known != "" {
			r.applied.Secrets[at] = known
		}
	}
	for _, execution := range instance.Executions {
		body := Body{}
		for name, value := range execution {
			body[name] = value
		}
		if named, ok := execution["targets"].([]any); ok {
			var list []any
			for _, name := range named {
				if id := ids[name]; id != "" {
					name = id
				}
				list = append(list, name)
			}
			body["targets"] = list
		}
		if _, err := r.call(ctx, targets, "PutExecution", Body{"execution": body}); err != nil {
			return fmt.Errorf("execution: %w", err)
		}
	}
	return nil
}

func (r *run) organization(ctx context.Context, at place, org Organization) error {
	inside := r.in(ctx, at.Context)
	body := Body{"name": org.Name}
	if org.ID != "" {
		body["id"] = org.ID
	}
	id, _, err := r.ensure(inside, organizations, body, Body{"name": Body{"name": org.Name}})
	if err == nil {
		err = checkID(org.ID, id)
	}
	if err != nil {
		return err
	}
	if org.Default {
		if _, err := r.call(inside, organizations, "SetAsInstanceDefault", Body{"id": id}); err != nil {
			return err
		}
	}
	in := place{policy.Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: at.InstanceID, OrgID: id}, at.path}
	inside = r.in(ctx, in.Context)
	if err := r.domains(inside, org.Domains); err != nil {
		return err
	}
	if err := r.settings(inside, org.Settings); err != nil {
		return err
	}
	for _, user := range org.Users {
		if err := r.user(ctx, in, user); err != nil {
			return fmt.Errorf("user %q: %w", user.Body["username"], err)
		}
	}
	for _, project := range org.Projects {
		if err := r.project(inside, in, project); err != nil {
			return fmt.Errorf("project %q: %w", project.Body["name"], err)
		}
	}
	return nil
}
