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
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/writ-id/writ/impl/client/transfer"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

func newImport() *cobra.Command {
	var on serverFlags
	var keys transfer.Keys
	var request transfer.ImportRequest
	var timeout time.Duration
	var asJSON bool
	var from transfer.From
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout != 0 {
				request.Timeout = timeout.String()
			}
			switch request.OnConflict {
			case "refuse", "skip", "update":
			default:
				return usageError{fmt.Errorf("--on-conflict: %q is not refuse, skip or update", request.OnConflict)}
			}
			if from.Format != "" && !slices.Contains(foreign.Formats(), from.Format) {
				return usageError{fmt.Errorf("--from: %q is none of %s", from.Format, strings.Join(foreign.Formats(), ", "))}
			}
			if from.Format == "" && (from.OrgID != "" || from.OrgName != "" || from.FirebaseHash != "") {
				return usageError{errors.New("--org, --org-name and --firebase-hash are for --from: files of writ export say where things belong")}
			}
			upload := transfer.Upload{File: cmd.InOrStdin(), Keys: keys, From: from}
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return usageError{err}
				}
				defer file.Close()
				if info, err := file.Stat(); err == nil {
					upload.Size = uint64(info.Size())
				}
				upload.File = file
			}
			c := on.transfer(cmd)
			report, err := c.Import(cmd.Context(), request, upload)
			if report != nil {
				if failed := printReport(cmd.OutOrStdout(), report, err != nil, asJSON); failed != nil {
					return errors.Join(err, failed)
				}
			}
			if err == nil && request.DryRun {
				c.Tell("nothing was changed (--dry-run)")
			}
			return err
		},
	}
	on.add(cmd.Flags())
	cmd.Flags().BoolVar(&request.DryRun, "dry-run", false, "report what would happen and change nothing")
	cmd.Flags().StringVar(&request.OnConflict, "on-conflict", "refuse", "rule for objects that exist already: refuse, skip or update")
	cmd.Flags().StringVar(&keys.Identity, "identity", "", "decrypt with the identities of age in this file")
	cmd.Flags().StringVar(&from.Format, "from", "", "what the file was exported from: "+strings.Join(foreign.Formats(), ", "))
	cmd.Flags().StringVar(&from.OrgID, "org", "", "with --from: ID of the organization that users go into")
	cmd.Flags().StringVar(&from.OrgName, "org-name", "", "with --from: name of a new organization that users go into")
	cmd.Flags().StringVar(&from.FirebaseHash, "firebase-hash", "", "with --from firebase: file with the password hash parameters, as the console shows them")
	addPassphrase(cmd.Flags(), &keys, "decrypt")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long the import may take; an hour when it is left out, at most 24h")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the report as JSON")
	return cmd
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
