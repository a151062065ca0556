// What openapi-generator's go client makes of the contract.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	openapi "example.com/sdk/openapi"
)

func main() {
	name := os.Getenv("WRIT_NAME")
	settings := openapi.NewConfiguration()
	settings.Servers = openapi.ServerConfigurations{{URL: os.Getenv("WRIT_URL")}}
	client := openapi.NewAPIClient(settings)
	ctx := context.WithValue(context.Background(), openapi.ContextAccessToken, os.Getenv("WRIT_TOKEN"))
	actions := client.ServiceActionsAPI

	target := openapi.NewTarget(name, "10s")
	target.SetRestWebhook(*openapi.NewRestWebhook("https://hooks.example/a"))
	target.SetIsAsync(true)
	created, _, err := actions.CreateTarget(ctx).Target(*target).Execute()
	must(err)
	id := created.Details.Id
	fmt.Println("created", id)

	read, _, err := actions.GetTarget(ctx, id).Execute()
	must(err)
	got := read.Target.Target
	check(got.Name == name && got.GetRestWebhook().Url == "https://hooks.example/a" && got.Timeout == "10s" && got.GetIsAsync() && got.RestRequestResponse == nil, got)
	fmt.Println("read None")

	byName := openapi.TargetNameFilter{Name: openapi.PtrString(strings.ToUpper(name)), Method: openapi.TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE.Ptr()}
	found, _, err := actions.SearchTargets(ctx).TargetSearchFilter([]openapi.TargetSearchFilter{{Name: &byName}}).
		QueryLimit(10).QueryAsc(true).SortingColumn(openapi.TARGET_FIELD_NAME_NAME).Execute()
	must(err)
	check(len(found.Result) == 1 && found.Result[0].Details.Id == id && found.Details.EndOfList, found)
	fmt.Println("found", found.Details.TotalResult)

	_, _, err = actions.PatchTarget(ctx, id).PatchTarget(openapi.PatchTarget{
		Timeout: openapi.PtrString("5s"), RestRequestResponse: openapi.NewRestRequestResponse("https://hooks.example/b"),
	}).Execute()
	must(err)
	read, _, err = actions.GetTarget(ctx, id).Execute()
	must(err)
	patched := read.Target.Target
	check(patched.Name == name && patched.Timeout == "5s" && patched.RestWebhook == nil, patched)
	fmt.Println("patched", patched.RestRequestResponse.Url)

	_, response, err := actions.CreateTarget(ctx).Target(*target).Execute()
	refusal, _ := err.(*openapi.GenericOpenAPIError)
	status, _ := refusal.Model().(openapi.Status)
	fmt.Println("refused", response.StatusCode, status.Details[0].AdditionalProperties["reason"])

	_, _, err = actions.DeleteTarget(ctx, id).Execute()
	must(err)
	_, response, _ = actions.GetTarget(ctx, id).Execute()
	fmt.Println("deleted", response.StatusCode)

	tokens, _, err := client.OAuthAPI.Token(context.Background()).GrantType("client_credentials").Scope("openid").
		ClientId(os.Getenv("WRIT_CLIENT_ID")).ClientSecret(os.Getenv("WRIT_CLIENT_SECRET")).Execute()
	must(err)
	fmt.Println("token", tokens.TokenType)
}

func must(err error) { check(err == nil, err) }

func check(holds bool, got any) {
	if !holds {
		panic(fmt.Sprintf("%+v", got))
	}
}
