package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/writ-id/writ/impl/client/transfer"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

func newImport() *cobra.Command {
	var i importing
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Bring organizations from a file into an instance",
		Long: `Imports a file of ` + "`writ export`" + `: all of it or nothing. Whether the file is packed
(gzip, zstd) and encrypted (age: --identity, --passphrase-file) is seen by its
content. - is standard input.

What is there already ends the import, with a report of what that is (--on-conflict
refuse), stays as it is (skip), or becomes what the file says (update). --dry-run
reports what would happen and changes nothing: begin with it.

--from reads what another system exported, converts it on this machine and sends the
result; what has no place here is in the report:

  keycloak  a realm (kc.sh export; partial exports of the console have no users)
  auth0     users, one JSON object a line
  firebase  users (firebase auth:export), with --firebase-hash
  csv       users, by the names in the first line
  zitadel   the data_orgsv1 of an export

Users that come without an organization go into one that is there (--org) or into a
new one (--org-name).

The report says, for each organization and kind of thing, how many were created,
updated and skipped, and what was not carried over, with the reason; --json writes it
for programs. The exit status is 0 only when the import succeeded.

The token has to be a personal access token of a service user with the role
IAM_OWNER. Without --url the server is the ` + "`writ dev`" + ` that runs here, as its
administrator.`,
		Example: `  writ import tenant.json.zst --dry-run
  writ import tenant.json.zst --on-conflict skip
  writ import --from keycloak realm.json --dry-run
  writ import --from csv people.csv --org-name Acme
  writ import tenant.json.zst.age --identity key.txt --timeout 30m
  writ export --url https://old.example --output - | writ import --url https://new.example -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd, args[0]) },
	}
	i.add(cmd.Flags())
	return cmd
}

// importing is what the flags of an import say.
type importing struct {
	on      serverFlags
	keys    transfer.Keys
	request transfer.ImportRequest
	timeout time.Duration
	asJSON  bool
	from    transfer.From
}

func (i *importing) add(flags *pflag.FlagSet) {
	i.on.add(flags)
	flags.BoolVar(&i.request.DryRun, "dry-run", false, "report what would happen and change nothing")
	flags.StringVar(&i.request.OnConflict, "on-conflict", "refuse", "rule for objects that exist already: refuse, skip or update")
	flags.StringVar(&i.keys.Identity, "identity", "", "decrypt with the identities of age in this file")
	flags.StringVar(&i.from.Format, "from", "", "what the file was exported from: "+strings.Join(foreign.Formats(), ", "))
	flags.StringVar(&i.from.OrgID, "org", "", "with --from: ID of the organization that users go into")
	flags.StringVar(&i.from.OrgName, "org-name", "", "with --from: name of a new organization that users go into")
	flags.StringVar(&i.from.FirebaseHash, "firebase-hash", "", "with --from firebase: file with the password hash parameters, as the console shows them")
	addPassphrase(flags, &i.keys, "decrypt")
	flags.DurationVar(&i.timeout, "timeout", 0, "how long the import may take; an hour when it is left out, at most 24h")
	flags.BoolVar(&i.asJSON, "json", false, "write the report as JSON")
}

// check refuses flags that do not go together.
func (i *importing) check() error {
	switch i.request.OnConflict {
	case "refuse", "skip", "update":
	default:
		return usageError{fmt.Errorf("--on-conflict: %q is not refuse, skip or update", i.request.OnConflict)}
	}
	if i.from.Format != "" && !slices.Contains(foreign.Formats(), i.from.Format) {
		return usageError{fmt.Errorf("--from: %q is none of %s", i.from.Format, strings.Join(foreign.Formats(), ", "))}
	}
	if i.from.Format == "" && (i.from.OrgID != "" || i.from.OrgName != "" || i.from.FirebaseHash != "") {
		return usageError{errors.New("--org, --org-name and --firebase-hash are for --from: files of writ export say where things belong")}
	}
	return nil
}

func (i *importing) run(cmd *cobra.Command, path string) error {
	if err := i.check(); err != nil {
		return err
	}
	if i.timeout != 0 {
		i.request.Timeout = i.timeout.String()
	}
	upload := transfer.Upload{File: cmd.InOrStdin(), Keys: i.keys, From: i.from}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return usageError{err}
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil {
			upload.Size = uint64(info.Size())
		}
		upload.File = file
	}
	c := i.on.transfer(cmd)
	report, err := c.Import(cmd.Context(), i.request, upload)
	if report != nil {
		if failed := printReport(cmd.OutOrStdout(), report, err != nil, i.asJSON); failed != nil {
			return errors.Join(err, failed)
		}
	}
	if err == nil && i.request.DryRun {
		c.Tell("nothing was changed (--dry-run)")
	}
	return err
}

func printReport(out io.Writer, report *transfer.Report, failed, asJSON bool) error {
	if !asJSON {
		transfer.PrintReport(out, report, failed)
		return nil
	}
	text, err := protojson.MarshalOptions{Multiline: true, EmitUnpopulated: true}.Marshal(report)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}
