// Package writ calls Writ, an identity platform, over HTTP and JSON.
//
//	client, err := writ.New(writ.Config{BaseURL: "https://login.example.com", Credentials: writ.Token("writ_pat_…")})
//	reply, err := client.Actions.GetTarget(ctx, id)
//
// The services of the contract are the fields of [Client], its operations their methods.
// What is refused is an [*Error], or an [*OAuthError] at the OAuth endpoints. Searches have
// a method that reads all pages (AllTargets beside SearchTargets).
//
// In messages a pointer that is nil is left out; [Ptr] makes one of a literal. Fields and
// values of enums that this package does not know yet are ignored and kept, respectively.
//
// Package writgrpc, beside this one, speaks gRPC with the same credentials.
package writ
