package transfer

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
)

// Report and Summary are what an import and an export came to.
type (
	Report  = transferv1.ImportReport
	Summary = transferv1.Summary
)

// listed is how many single things a report for people names.
const listed = 50

// PrintReport writes what an import came to, for people; failed is one that did not succeed.
func PrintReport(out io.Writer, report *Report, failed bool) {
	if failed {
		fmt.Fprintln(out, "Nothing was imported.")
	}
	if len(report.GetOutcomes()) > 0 {
		printOutcomes(out, report)
	}
	if n := len(report.GetNotCarried()); n > 0 {
		fmt.Fprintln(out, "\nNot carried over:")
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, one := range report.GetNotCarried()[:min(n, listed)] {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", one.GetKind(), one.GetId(), cmp.Or(one.GetMessage(), one.GetReason()))
		}
		_ = table.Flush()
		if more := max(report.GetTotalNotCarried(), uint64(n)) - uint64(min(n, listed)); more > 0 {
			fmt.Fprintf(out, "  and %d more; --json names up to 1000\n", more)
		}
	}
	if n := len(report.GetIgnored()); n > 0 {
		fmt.Fprintln(out, "\nMembers of the file that nothing is known about:")
		for _, name := range report.GetIgnored()[:min(n, listed)] {
			fmt.Fprintf(out, "  %s\n", name)
		}
		if n > listed {
			fmt.Fprintf(out, "  and %d more; --json names up to 1000\n", n-listed)
		}
	}
}

func printOutcomes(out io.Writer, report *Report) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ORGANIZATION\tWHAT\tCREATED\tUPDATED\tSKIPPED\tNOT CARRIED")
	var created, updated, skipped, lost uint64
	names, people := map[string]string{}, map[string]bool{}
	for _, one := range report.GetOrganizations() {
		names[one.GetId()] = one.GetName()
	}
	for _, one := range report.GetOutcomes() {
		people[one.GetOrgId()] = people[one.GetOrgId()] || one.GetKind() == "users" && one.GetCreated()+one.GetUpdated() > 0
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", cmp.Or(names[one.GetOrgId()], one.GetOrgId()), one.GetKind(), one.GetCreated(), one.GetUpdated(), one.GetSkipped(), one.GetNotCarried())
		created += one.GetCreated()
		updated += one.GetUpdated()
		skipped += one.GetSkipped()
		lost += one.GetNotCarried()
	}
	fmt.Fprintf(table, "all\t\t%d\t%d\t%d\t%d\n", created, updated, skipped, lost)
	_ = table.Flush()
	for _, one := range report.GetOrganizations() {
		if people[one.GetId()] && one.GetPrimaryDomain() != "" {
			fmt.Fprintf(out, "\nPeople of %s sign in as USERNAME@%s, by a verified e-mail address, or by their username alone unless others have it too.\n", one.GetName(), one.GetPrimaryDomain())
		}
	}
}

// PrintSummary writes what an export came to, for people.
func PrintSummary(out io.Writer, summary *Summary) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, one := range summary.GetCarried() {
		if one.GetCount() > 0 {
			fmt.Fprintf(table, "%d\t%s\n", one.GetCount(), one.GetKind())
		}
	}
	_ = table.Flush()
	if len(summary.GetBehind()) == 0 {
		return
	}
	fmt.Fprintln(out, "\nNot in the file:")
	table = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, one := range summary.GetBehind() {
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\n", one.GetCount(), one.GetKind(), one.GetOrgId(), one.GetMessage())
	}
	_ = table.Flush()
}
