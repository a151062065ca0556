// golangci-lint has its own module: its dependencies would decide the versions
// of everything else's.
module github.com/writ-id/writ/tools/lint

go 1.26.0

require github.com/golangci/golangci-lint/v2 v2.15.0

tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint
