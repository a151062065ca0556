// Command run holds an OpenID provider to package conformance/oidc and prints
// what it came to.
//
//	go run ./conformance/oidc/run -config conf.json [-url https://op.example] [-module PATTERN] [-plan PATTERN]
//
// The configuration is JSON with issuer, user and clients, see oidc.Config; the
// ready file of `writ dev` is one. It exits with 1 when a module fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"

	"github.com/writ-id/writ/conformance/oidc"
)

func main() {
	var (
		config  = flag.String("config", os.Getenv("WRIT_OIDC_CONFIG"), "configuration or ready file")
		issuer  = flag.String("url", "", "issuer, instead of the one in the configuration")
		plan    = flag.String("plan", "", "regular expression: the plans to run")
		module  = flag.String("module", "", "regular expression: the modules to run")
		results = flag.String("results", "", "file to write the results to, as Markdown")
		slow    = flag.Bool("slow", false, "also run the modules that take more than a minute")
		verbose = flag.Bool("v", false, "print the exchanges of every module that did not pass")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	failed, err := run(ctx, *config, *issuer, *plan, *module, *results, *slow, *verbose)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func run(ctx context.Context, path, issuer, plan, module, markdown string, slow, verbose bool) (failed bool, err error) {
	config, err := oidc.Load(path)
	if err != nil {
		return false, fmt.Errorf("read the configuration (-config): %w", err)
	}
	config.FromEnvironment()
	if issuer != "" {
		config.Issuer = issuer
	}
	plans, err := regexp.Compile(plan)
	if err != nil {
		return false, err
	}
	modules, err := regexp.Compile(module)
	if err != nil {
		return false, err
	}
	suite, err := oidc.New(config)
	if err != nil {
		return false, err
	}
	suite.Slow = slow
	suite.Only = func(plan, module, _ string) bool { return plans.MatchString(plan) && modules.MatchString(module) }
	results := suite.Run(ctx)
	for _, result := range results {
		if result.Bad() || verbose && result.Verdict != oidc.Pass {
			fmt.Println(suite.Detail(result))
		}
		failed = failed || result.Verdict == oidc.Fail
	}
	suite.Table(os.Stdout, results)
	fmt.Println(oidc.Summary(results))
	if markdown == "" {
		return failed, nil
	}
	file, err := os.Create(markdown)
	if err != nil {
		return failed, err
	}
	defer file.Close()
	suite.Markdown(file, results)
	return failed, file.Close()
}
