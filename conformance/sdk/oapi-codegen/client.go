// What oapi-codegen, with its default flags, makes of the contract.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"example.com/sdk/api"
)

func main() {
	name, ctx := os.Getenv("WRIT_NAME"), context.Background()
	client, err := api.NewClientWithResponses(os.Getenv("WRIT_URL"), api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		if !strings.HasPrefix(r.URL.Path, "/oauth/") {
			r.Header.Set("Authorization", "Bearer "+os.Getenv("WRIT_TOKEN"))
		}
		return nil
	}))
	must(err)

	target := api.Target{Name: name, RestWebhook: &api.RestWebhook{Url: "https://hooks.example/a"}, Timeout: "10s", IsAsync: new(true)}
	created, err := client.CreateTargetWithResponse(ctx, target)
	must(err)
	id := created.JSON201.Details.Id
	fmt.Println("created", id)

	read, err := client.GetTargetWithResponse(ctx, id)
	must(err)
	got := read.JSON200.Target.Target
	check(got.Name == name && got.RestWebhook.Url == "https://hooks.example/a" && got.Timeout == "10s" && *got.IsAsync && got.RestRequestResponse == nil, got)
	fmt.Println("read None")

	byName := api.TargetNameFilter{Name: new(strings.ToUpper(name)), Method: new(api.TEXTFILTERMETHODEQUALSIGNORECASE)}
	found, err := client.SearchTargetsWithResponse(ctx, &api.SearchTargetsParams{
		QueryLimit: new(int64(10)), QueryAsc: new(true), SortingColumn: new(api.TARGETFIELDNAMENAME),
	}, []api.TargetSearchFilter{{Name: &byName}})
	must(err)
	check(len(found.JSON200.Result) == 1 && found.JSON200.Result[0].Details.Id == id && found.JSON200.Details.EndOfList, found)
	fmt.Println("found", found.JSON200.Details.TotalResult)

	_, err = client.PatchTargetWithResponse(ctx, id, api.PatchTarget{
		Timeout: new("5s"), RestRequestResponse: &api.RestRequestResponse{Url: "https://hooks.example/b"},
	})
	must(err)
	read, err = client.GetTargetWithResponse(ctx, id)
	must(err)
	patched := read.JSON200.Target.Target
	check(patched.Name == name && patched.Timeout == "5s" && patched.RestWebhook == nil, patched)
	fmt.Println("patched", patched.RestRequestResponse.Url)

	refused, err := client.CreateTargetWithResponse(ctx, target)
	must(err)
	fmt.Println("refused", refused.StatusCode(), refused.JSON409.Details[0].AdditionalProperties["reason"])

	_, err = client.DeleteTargetWithResponse(ctx, id)
	must(err)
	read, err = client.GetTargetWithResponse(ctx, id)
	must(err)
	fmt.Println("deleted", read.StatusCode())

	tokens, err := client.TokenWithFormdataBodyWithResponse(ctx, api.TokenRequest{
		GrantType: "client_credentials", Scope: "openid", ClientId: os.Getenv("WRIT_CLIENT_ID"), ClientSecret: os.Getenv("WRIT_CLIENT_SECRET"),
	})
	must(err)
	fmt.Println("token", tokens.JSON200.TokenType)
}

func must(err error) { check(err == nil, err) }

func check(holds bool, got any) {
	if !holds {
		panic(fmt.Sprintf("%+v", got))
	}
}
