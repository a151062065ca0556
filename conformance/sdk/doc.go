// Package sdk holds the published contract to what people do with it first: they
// generate a client. Each test generates one with an unmodified generator, compiles
// it, and runs a program of it against a node: it creates a target, reads, finds and
// patches it, is refused, deletes it, and gets a token at the OAuth endpoint.
//
// The packages of gen/sdk are held to more, in packages_test.go: there one list of calls
// goes through all three.
//
// What is generated and compiled is kept in the user's cache folder, under the hash
// of all it is made of, so that a run without a change of the contract only runs the
// programs. Tools come from the package registries at the versions of requirements.txt,
// package-lock.json, Cargo.toml and go.mod. A test whose toolchain is not on the machine
// is skipped with the reason (go test -v, or make sdk, shows it); in CI only C# and Rust
// may be, whose toolchains no registry has.
package sdk
