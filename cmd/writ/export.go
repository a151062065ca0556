package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/writ-id/writ/impl/client/transfer"
)

func newExport() *cobra.Command {
	var e exporting
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write organizations with all that is theirs to a file",
		Long: `Exports organizations, their users, projects, applications, grants and settings, as
they are at one moment, to a file that ` + "`writ import`" + ` brings into another instance.

The end of the name says how the file is packed: tenant.json, tenant.json.gz,
tenant.json.zst. With --recipient (age1…, more than once for several) or
--passphrase-file it is encrypted, by age; .age may end the name. A file that is
there is whole: until then it has another name, and after an error there is none.

Password hashes, secrets of one-time passwords, and secrets of applications and
providers are left out unless you ask for them. Never in a file are what is of the
instance itself, keys of service users and applications, personal access tokens
and passkeys; what else was left behind is printed at the end, with the reason.

The server exports by itself and keeps the result for a day; the download goes on
where a connection broke. Ctrl-C ends the export too.

With --as-seed the file is a seed file, for people: ` + "`writ apply`" + ` makes of it what it says,
and nothing where all of that is. What a seed file cannot hold is printed.

The token has to be a personal access token of a service user with the role
IAM_OWNER. Without --url the server is the ` + "`writ dev`" + ` that runs here, as its
administrator.`,
		Example: `  writ export --output everything.json.zst
  writ export --org 3f1c… --with-passwords --recipient age1… --output tenant.json.zst.age
  writ export --exclude-org 77aa… --output - | jq '.users | length'
  writ export --org 3f1c… --with-passwords --as-seed --output seed.yaml
  WRIT_TOKEN_FILE=token writ export --url https://id.example --output tenant.json.zst`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd) },
	}
	e.add(cmd.Flags())
	return cmd
}

// exporting is what the flags of an export say.
type exporting struct {
	on                serverFlags
	keys              transfer.Keys
	request           transfer.ExportRequest
	output, operation string
	timeout           time.Duration
	seeds             seedFlags
}

func (e *exporting) add(flags *pflag.FlagSet) {
	e.on.add(flags)
	e.seeds.add(flags)
	flags.StringVarP(&e.output, "output", "o", "", "the file to write; - is standard output")
	flags.StringSliceVar(&e.request.OrgIDs, "org", nil, "ID of an organization to export; may be repeated; all when there is none")
	flags.StringSliceVar(&e.request.ExcludedOrgIDs, "exclude-org", nil, "ID of an organization to leave out; may be repeated")
	flags.BoolVar(&e.request.WithPasswords, "with-passwords", false, "include the hashes of passwords")
	flags.BoolVar(&e.request.WithOTP, "with-otp", false, "include the secrets of one-time passwords")
	flags.BoolVar(&e.request.WithSecrets, "with-secrets", false, "include hashes of client secrets and the secrets of providers")
	flags.StringSliceVar(&e.keys.Recipients, "recipient", nil, "encrypt for this public key of age (age1…); may be repeated")
	addPassphrase(flags, &e.keys, "encrypt")
	flags.DurationVar(&e.timeout, "timeout", 0, "how long the export may take; an hour when it is left out, at most 24h")
	flags.StringVar(&e.operation, "operation", "", "fetch what an operation exported, after a download that was not finished")
}

func (e *exporting) run(cmd *cobra.Command) error {
	if e.output == "" {
		return usageError{errors.New("--output is required: a file such as tenant.json.zst, or - for standard output")}
	}
	if e.timeout != 0 {
		e.request.Timeout = e.timeout.String()
	}
	out, err := transfer.Create(e.output, e.keys, cmd.OutOrStdout())
	if err != nil {
		return usageError{err}
	}
	defer out.Discard()
	c := e.on.transfer(cmd)
	if (e.request.WithPasswords || e.request.WithOTP || e.request.WithSecrets) && !e.keys.Encrypt() {
		c.Tell("the file will hold secrets: --recipient or --passphrase-file encrypts it")
	}
	export := func() (*transfer.Summary, error) { return c.Export(cmd.Context(), e.request, e.operation, out) }
	if e.seeds.asked {
		export = func() (*transfer.Summary, error) {
			return e.seeds.export(cmd.Context(), c, e.request, e.operation, out)
		}
	}
	summary, err := export()
	if err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	transfer.PrintSummary(cmd.ErrOrStderr(), summary)
	return nil
}

func addPassphrase(flags *pflag.FlagSet, keys *transfer.Keys, what string) {
	flags.StringVar(&keys.Passphrase, "passphrase-file", "", what+" with the passphrase in the first line of this file")
}

// transfer returns what has the server export and import, and shows how far it is.
func (f *serverFlags) transfer(cmd *cobra.Command) *transfer.Client {
	var bar *transfer.Bar
	if file, ok := cmd.ErrOrStderr().(*os.File); ok {
		bar = transfer.NewBar(file)
	}
	return &transfer.Client{Find: f.find, Interval: 500 * time.Millisecond, Bar: bar, Tell: func(format string, args ...any) {
		bar.Clear()
		fmt.Fprintf(cmd.ErrOrStderr(), "writ: "+format+"\n", args...)
	}}
}
