// The calls of packages_test.go through the module for Go.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	writ "github.com/writ-id/writ/gen/sdk/go/v3"
	"github.com/writ-id/writ/gen/sdk/go/v3/examples"
	"github.com/writ-id/writ/gen/sdk/go/v3/writgrpc"
	actionv3alpha "github.com/writ-id/writ/gen/sdk/go/v3/writgrpc/action/v3alpha"
)

var (
	name   = "SDK go " + os.Getenv("WRIT_TEST_RUN")
	client = must(writ.New(writ.Config{})) // from the environment
	ctx    = context.Background()
	id     string
)

func must[T any](value T, err error) T {
	check(err == nil, err)
	return value
}

func check(ok bool, what ...any) {
	if !ok {
		log.Panicln(what...)
	}
}

func equal(got, want any) { check(reflect.DeepEqual(got, want), "got", got, "want", want) }

// faulty is a client whose requests something happens to on the way, and how many there were.
func faulty(fault string, change ...func(*writ.Config)) (*writ.Client, func(path string) int) {
	var mutex sync.Mutex
	attempts := map[string]int{}
	config := writ.Config{
		BaseURL: os.Getenv("WRIT_TEST_PROXY"),
		Header:  http.Header{"X-Fault": {fault}, "X-Fault-Key": {rand.Text()}},
		OnRequest: func(r *http.Request) {
			mutex.Lock()
			defer mutex.Unlock()
			attempts[""]++
			attempts[r.URL.Path]++
		},
	}
	for _, each := range change {
		each(&config)
	}
	return must(writ.New(config)), func(path string) int {
		mutex.Lock()
		defer mutex.Unlock()
		return attempts[path]
	}
}

func refused(err error) *writ.Error {
	var e *writ.Error
	check(errors.As(err, &e), "not refused:", err)
	return e
}

func target(name string) *writ.Target {
	return &writ.Target{Name: name, RestWebhook: &writ.RestWebhook{URL: "https://hooks.example/a"}, Timeout: writ.Duration(10 * time.Second)}
}

func startsWith() []writ.TargetSearchFilter {
	return []writ.TargetSearchFilter{{Name: &writ.TargetNameFilter{Name: name, Method: writ.TextFilterMethodStartsWith}}}
}

func read() *writ.GetTarget { return &must(client.Actions.GetTarget(ctx, id)).Target }

func as(credentials writ.TokenSource) string {
	return must(must(writ.New(writ.Config{Credentials: credentials})).OAuth.GetUserInfo(ctx)).Sub
}

var steps = []struct {
	name string
	run  func()
}{
	{"create", func() {
		made := target(name)
		made.IsAsync = new(true)
		reply := must(client.Actions.CreateTarget(ctx, made))
		id = reply.Details.ID
		check(len(id) == 36 && strings.HasPrefix(reply.SigningKey, "whsec_"), reply)
	}},
	{"get", func() {
		got := read().Target
		equal(got.Name, name)
		equal(got.Timeout, writ.Duration(10*time.Second))
		check(*got.IsAsync && got.InterruptOnError == nil, got)
	}},
	{"search", func() {
		for _, n := range []string{" 1", " 2", " 3"} {
			must(client.Actions.CreateTarget(ctx, target(name+n)))
		}
		params := &writ.SearchTargetsParams{Limit: 2, Asc: true, SortingColumn: writ.TargetFieldNameName}
		var names []string
		for each, err := range client.Actions.AllTargets(ctx, startsWith(), params) {
			check(err == nil, err)
			names = append(names, each.Target.Name)
		}
		equal(names, []string{name, name + " 1", name + " 2", name + " 3"})
		page := must(client.Actions.SearchTargets(ctx, startsWith(), params))
		check(len(page.Result) == 2 && !page.Details.EndOfList, page)
		check(len(must(client.Actions.SearchTargets(ctx, startsWith(), params, nil, (*writ.SearchTargetsParams)(nil))).Result) == 2) // nil says nothing
		_, err := client.Actions.SearchTargets(ctx, startsWith(), &writ.SearchUsersParams{})
		check(err != nil && strings.Contains(err.Error(), "takes no SearchUsersParams"), err)
		equal(page.Details.TotalResult, uint64(4))
	}},
	{"patch", func() {
		must(client.Actions.PatchTarget(ctx, id, &writ.PatchTarget{Timeout: new(writ.Duration(5 * time.Second))}))
		got := read().Target
		check(got.Name == name && got.Timeout == writ.Duration(5*time.Second) && *got.IsAsync, got)
	}},
	{"oneof", func() {
		must(client.Actions.PatchTarget(ctx, id, &writ.PatchTarget{RestRequestResponse: &writ.RestRequestResponse{URL: "https://hooks.example/b"}}))
		got := read().Target
		check(got.RestWebhook == nil && got.RestRequestResponse.URL == "https://hooks.example/b", got)
	}},
	{"reason", func() {
		_, err := client.Actions.CreateTarget(ctx, target(name))
		e := refused(err)
		check(writ.IsReason(err, writ.ReasonTargetNameTaken) && writ.IsCode(err, writ.AlreadyExists), err)
		check(e.Status == 409 && e.RequestID != "" && strings.Contains(err.Error(), e.RequestID) && json.Valid(e.Body), err)
	}},
	{"violation", func() {
		_, err := client.Actions.CreateTarget(ctx, target(""))
		e := refused(err)
		check(e.Status == 400 && e.Code == writ.InvalidArgument && e.Violations[0].Field == "name", err)
	}},
	{"missing", func() {
		_, err := client.Actions.GetTarget(ctx, "nobody")
		check(refused(err).Status == 404 && writ.IsCode(err, writ.NotFound), err)
		_, err = client.Actions.GetTarget(ctx, "..")
		check(strings.Contains(err.Error(), "is not an ID"), err)
	}},
	{"numbers", func() {
		c, attempts := faulty("future")
		equal(must(c.Actions.GetTarget(ctx, id)).Target.Details.Sequence, ^uint64(0))
		equal(attempts(""), 1)
	}},
	{"times", func() { check(time.Since(read().Details.ChangeDate).Abs() < time.Hour, read().Details) }},
	{"durations", func() {
		length := writ.Duration(1500 * time.Millisecond)
		must(client.Actions.PatchTarget(ctx, id, &writ.PatchTarget{Timeout: &length}))
		equal(read().Target.Timeout, length)
	}},
	{"unknown", func() {
		c, _ := faulty("future")
		var answer writ.Answer
		page := must(c.Actions.SearchTargets(ctx, nil, &writ.SearchTargetsParams{Limit: 1}, writ.Into(&answer)))
		equal(page.SortingColumn, writ.TargetFieldName("TARGET_FIELD_NAME_OF_TOMORROW"))
		check(strings.Contains(string(answer.Body), "fromTomorrow"), string(answer.Body))
	}},
	{"omitted", func() {
		c, _ := faulty("omit")
		page := must(c.Actions.SearchTargets(ctx, nil, &writ.SearchTargetsParams{Limit: 1}))
		check(page.Details.TotalResult == 0 && len(page.Result) == 1, page)
	}},
	{"retry", func() {
		c, attempts := faulty("unavailable") // twice, with Retry-After
		equal(must(c.Actions.GetTarget(ctx, id)).Target.Details.ID, id)
		equal(attempts(""), 3)
	}},
	{"no retry", func() {
		c, attempts := faulty("unavailable") // it may have happened
		_, err := c.Actions.CreateTarget(ctx, target(name+" 9"))
		equal([]int{refused(err).Status, attempts("")}, []int{503, 1})
		c, attempts = faulty("unavailable", func(config *writ.Config) { config.Retries = -1 })
		_, err = c.Actions.GetTarget(ctx, id)
		check(refused(err).Header.Get("Retry-After") == "0" && attempts("") == 1, err)
		c, attempts = faulty("lost")
		_, err = c.Actions.PatchTarget(ctx, id, &writ.PatchTarget{})
		var lost *writ.ConnectionError
		check(errors.As(err, &lost) && attempts("") == 1, err)
		c, attempts = faulty("none")
		_, err = c.Actions.GetTarget(ctx, "nobody")
		check(writ.IsCode(err, writ.NotFound) && attempts("") == 1, err)
	}},
	{"timeout", func() {
		c, _ := faulty("hang")
		_, err := c.Actions.GetTarget(ctx, id, writ.Timeout(50*time.Millisecond))
		check(errors.Is(err, context.DeadlineExceeded), err)
	}},
	{"cancel", func() {
		c, _ := faulty("hang")
		bounded, cancel := context.WithCancelCause(ctx)
		reason := errors.New("not any more")
		time.AfterFunc(20*time.Millisecond, func() { cancel(reason) })
		_, err := c.Actions.GetTarget(bounded, id)
		check(errors.Is(err, reason), err)
	}},
	{"client credentials", func() {
		check(as(&writ.ClientCredentials{ID: os.Getenv("WRIT_TEST_SERVICE"), Secret: os.Getenv("WRIT_TEST_SERVICE_SECRET")}) != "")
	}},
	{"key file", func() {
		user := must(client.Users.CreateUser(ctx, &writ.User{Username: strings.ReplaceAll(strings.ToLower(name), " ", "-"), Service: &writ.Service{Name: name}})).Details.ID
		for _, kind := range []writ.MachineKeyType{writ.MachineKeyTypeRSA2048, writ.MachineKeyTypeECP256} {
			key := must(client.Users.CreateMachineKey(ctx, user, &writ.MachineKey{Type: kind}))
			equal(as(must(writ.ParseKeyFile(key.KeyDetails))), user)
		}
	}},
	{"system user", func() {
		system := &writ.SystemUser{Name: "automation", Key: os.Getenv("WRIT_TEST_SYSTEM_KEY")}
		c := must(writ.New(writ.Config{BaseURL: os.Getenv("WRIT_TEST_NODE"), Credentials: system}))
		check(len(must(c.Instances.SearchInstances(ctx, nil)).Result) > 0)
	}},
	{"refresh token", func() {
		var saved []string
		old := os.Getenv("WRIT_TEST_REFRESH_TOKEN")
		source := writ.NewRefreshToken(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET"), old, func(_ context.Context, token string) error {
			saved = append(saved, token)
			return nil
		})
		c, attempts := faulty("none", func(config *writ.Config) { config.Credentials = source })
		var wait sync.WaitGroup
		for range 10 {
			wait.Go(func() { check(must(c.OAuth.GetUserInfo(ctx)).Sub != "") })
		}
		wait.Wait()
		equal(attempts("/oauth/v2/token"), 1)
		check(len(saved) == 1 && saved[0] != old, saved)
	}},
	{"revoked token", func() {
		var asked atomic.Int32
		c, _ := faulty("unauthenticated", func(config *writ.Config) {
			config.Credentials = writ.TokenFunc(func(context.Context) (writ.AccessToken, error) {
				asked.Add(1)
				return writ.AccessToken{Value: os.Getenv("WRIT_ADMIN_TOKEN"), Expires: time.Now().Add(time.Hour)}, nil
			})
		})
		must(c.Actions.GetTarget(ctx, id))
		equal(asked.Load(), int32(2))
	}},
	{"oauth error", func() {
		_, err := client.OAuth.Token(ctx, &writ.TokenRequest{GrantType: "client_credentials"}, writ.AsClient(os.Getenv("CLIENT_ID"), "wrong"))
		var e *writ.OAuthError
		check(errors.As(err, &e) && e.Status == 401 && e.Code == "invalid_client", err)
	}},
	{"login", func() {
		equal(must(client.OAuth.GetConfiguration(ctx)).Issuer, os.Getenv("OIDC_ISSUER"))
		begun := must(client.OAuth.Authorize(ctx, os.Getenv("CLIENT_ID"), "https://app.example/back", []string{"openid"}, nil))
		equal(must(url.Parse(begun.URL)).Query().Get("state"), begun.State)
		_, err := client.OAuth.Exchange(ctx, "no-code", "https://app.example/back", "no-verifier")
		var e *writ.OAuthError
		check(errors.As(err, &e) && e.Code == "invalid_grant", err)
		check(!must(client.OAuth.Introspect(ctx, &writ.IntrospectionRequest{Token: "nothing"})).Active)
		err = client.OAuth.Revoke(ctx, &writ.RevocationRequest{Token: "nothing"})
		check(err == nil, err)
	}},
	{"tracing", func() {
		const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		var seen []string
		c, _ := faulty("none", func(config *writ.Config) {
			config.OnRequest = func(r *http.Request) { r.Header.Set("traceparent", traceparent) }
			config.OnResponse = func(_ *http.Request, r *http.Response, _ error) {
				seen = append(seen, r.Header.Get("X-Seen-Traceparent"))
			}
		})
		var answer writ.Answer
		must(c.Actions.GetTarget(ctx, id, writ.Into(&answer)))
		check(answer.Status == 200 && len(seen) == 1 && seen[0] == traceparent, seen)
	}},
	{"webhook", func() {
		var deliveries []struct {
			Name, Body, Want string
			Keys             []string
			Headers          map[string]string
		}
		check(json.Unmarshal([]byte(os.Getenv("WRIT_TEST_DELIVERIES")), &deliveries) == nil && len(deliveries) > 0)
		for _, d := range deliveries {
			header := http.Header{}
			for name, value := range d.Headers {
				header.Set(name, value)
			}
			verifier, err := writ.NewWebhookVerifier(d.Keys...)
			if (err != nil) != (d.Want == "key") {
				check(false, d.Name, err)
			}
			if err != nil {
				continue
			}
			err = verifier.Verify([]byte(d.Body), header)
			check(err == nil && d.Want == "body" || errors.Is(err, writ.ErrSignature) && d.Want == "signature", d.Name, err)
			var event writ.EventPayload
			check(err != nil || json.Unmarshal([]byte(d.Body), &event) == nil && event.EventType == "user.human.added", event)
		}
	}},
	{"export and import", func() {
		request := &writ.ExportRequest{OrgIDs: []string{os.Getenv("WRIT_TEST_ORG")}, ResponseOutput: new(true)}
		var answer writ.Answer
		file := must(client.Administration.ExportData(ctx, request, writ.Into(&answer)))
		equal(len(file.Organizations), 1)
		// As it came, with what this version does not know.
		must(client.Administration.ImportData(ctx, &writ.ImportRequest{DataOrgsv1: json.RawMessage(answer.Body), DryRun: new(true), OnConflict: new("skip")}))
		must(client.Administration.ImportData(ctx, &writ.ImportRequest{DataOrgsv1: file, DryRun: new(true), OnConflict: new("skip")}))
		check(must(client.Administration.StartExportData(ctx, request)).ID != "")
	}},
	{"examples", func() {
		// On a server of their own: they change what they can. There may be nothing of that ID, or
		// already something of that name, or the transfer of an example before still runs; but the
		// server understood the example.
		of := func(name string) *writ.Client {
			return must(writ.New(writ.Config{BaseURL: os.Getenv("WRIT_TEST_OWN"), Credentials: writ.Token(os.Getenv("WRIT_TEST_OWN_" + name))}))
		}
		owner, system := of("TOKEN"), of("SYSTEM_TOKEN")
		var misunderstood []string
		for _, example := range examples.All {
			c := system
			if regexp.MustCompile("Export|Import|Operation|UserInfo").MatchString(example.Name) {
				c = owner
			}
			_, err := example.Run(ctx, c)
			var oauth *writ.OAuthError
			if err == nil || errors.As(err, &oauth) || writ.IsReason(err, "TRANSFERS_RUNNING") {
				continue
			}
			switch refused(err).Code {
			case writ.NotFound, writ.AlreadyExists, writ.FailedPrecondition, writ.PermissionDenied, writ.Unauthenticated:
			default:
				misunderstood = append(misunderstood, example.Name+": "+err.Error())
			}
		}
		check(len(misunderstood) == 0, strings.Join(misunderstood, "\n"))
	}},
	{"grpc", func() {
		conn := must(writgrpc.Dial(client))
		defer conn.Close()
		actions := actionv3alpha.NewServiceActionsClient(conn)
		got := must(actions.GetTarget(ctx, &actionv3alpha.GetTargetRequest{Id: id}))
		equal(got.GetTarget().GetTarget().GetName(), name)
		_, err := actions.GetTarget(ctx, &actionv3alpha.GetTargetRequest{Id: "nobody"})
		check(refused(err).Code == writ.NotFound && status.Code(err) == codes.NotFound, err)
		_, err = actions.CreateTarget(ctx, &actionv3alpha.CreateTargetRequest{})
		check(len(refused(err).Violations) > 0, err)
	}},
	{"delete", func() {
		var mine []string
		for each, err := range client.Actions.AllTargets(ctx, startsWith()) {
			check(err == nil, err)
			mine = append(mine, each.Details.ID)
		}
		for _, each := range mine {
			must(client.Actions.DeleteTarget(ctx, each))
		}
		_, err := client.Actions.GetTarget(ctx, id)
		check(writ.IsCode(err, writ.NotFound), err)
	}},
}

func main() {
	log.SetFlags(log.Lshortfile)
	for _, step := range steps {
		log.SetPrefix(step.name + ": ")
		step.run()
		fmt.Println(step.name)
	}
}
