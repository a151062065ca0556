package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/doctor"
)

func newDoctor() *cobra.Command {
	var s serve
	var format string
	var nodes int
	var skip []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what a node stands on, and say what to do about it",
		Long: `Takes the settings of writ serve, from the same places, and looks at the machine
(open files, memory, room for exports and imports), the database (version, settings, schema,
clock, pooler), keys, queues, and whether each issuer is reachable from here as
itself. It changes nothing. Without a database it looks at the writ dev that runs here.

It exits with 1 if something failed; warnings are only told.`,
		Example: `  writ doctor
  writ doctor --config /etc/writ/writ.yaml --nodes 3
  writ doctor --skip issuers --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return usageError{fmt.Errorf("--format: %q is not text or json", format)}
			}
			for _, group := range skip {
				if !slices.Contains(doctor.Groups, group) {
					return usageError{fmt.Errorf("--skip: %q is none of %s", group, strings.Join(doctor.Groups, ", "))}
				}
			}
			c, err := s.patient(cmd.Context())
			if err != nil {
				return err
			}
			c.Nodes, c.Skip = max(nodes, 1), skip
			found := doctor.Run(cmd.Context(), c)
			if err := printFindings(cmd.OutOrStdout(), format, found); err != nil {
				return err
			}
			if doctor.Failed(found) {
				return errors.New("something failed; see above")
			}
			return nil
		},
	}
	s.add(cmd)
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	cmd.Flags().IntVar(&nodes, "nodes", 1, "how many nodes share the database, for the count of connections")
	cmd.Flags().StringSliceVar(&skip, "skip", nil, "groups of checks to leave out: "+strings.Join(doctor.Groups, ", "))
	return cmd
}

// patient says what to look at: the node of these settings, else the writ dev of this
// machine.
func (s *serve) patient(ctx context.Context) (doctor.Config, error) {
	c := doctor.Config{
		DatabaseURL: s.database.given, Pooler: s.pooler, Connections: s.connections, MaxClients: s.maxClients(),
		TransferDir: s.transferDir, TransferSpace: s.transferSpace,
		TLSCertFile: s.tlsCert, Scheme: s.external.Scheme, Port: s.external.Port, Now: now, Transport: http.DefaultTransport,
	}
	key, err := readMasterKey(s.master.text, s.master.file)
	if err != nil {
		return c, usageError{err}
	}
	if key != nil {
		c.Sealer = key
	}
	if s.database.given != "" {
		return c, nil
	}
	addr := s.addr
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	if c.DatabaseURL, err = s.database.urlOrDev(ctx, addr); err != nil {
		return c, err
	}
	return s.dev(ctx, c, addr)
}

// dev completes c for the writ dev at addr: its keys are in the folder of its credentials.
func (s *serve) dev(ctx context.Context, c doctor.Config, addr string) (doctor.Config, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return c, usageError{fmt.Errorf("--addr: %w", err)}
	}
	c.Dev, c.Port = true, port
	dir, at, key, err := devKey(ctx, addr)
	if err != nil {
		return c, err
	}
	c.Scheme, _, _ = strings.Cut(at, "://")
	if trusted := trusting(dir); trusted != nil {
		c.Transport = trusted
	}
	if key != nil {
		c.Sealer = key
	}
	return c, nil
}

// devKey returns the master key of the writ dev at addr, which is in the folder of its credentials.
func devKey(ctx context.Context, addr string) (dir, at string, key *secret.MasterKey, err error) {
	path, at, err := askDev(ctx, addr, "/_dev/credentials")
	if err != nil || !filepath.IsAbs(path) {
		return "", "", nil, fmt.Errorf("the writ dev at %s does not say where its keys are", addr)
	}
	dir = filepath.Dir(path)
	key, err = readMasterKey("", filepath.Join(dir, "master-key.json"))
	return dir, at, key, err
}

// printFindings prints what was found, for people or for programs.
func printFindings(out io.Writer, format string, found []doctor.Finding) error {
	if format == "json" {
		return writeJSON(out, struct {
			OK     bool             `json:"ok"`
			Checks []doctor.Finding `json:"checks"`
		}{!doctor.Failed(found), found})
	}
	counts := map[doctor.Level]int{}
	group := ""
	for _, one := range found {
		if one.Group != group {
			group = one.Group
			fmt.Fprintf(out, "%s\n", group)
		}
		counts[one.Level]++
		fmt.Fprintf(out, "  %-4s  %s: %s\n", one.Level, one.Check, one.Message)
		if one.Do != "" {
			fmt.Fprintf(out, "        → %s\n", one.Do)
		}
	}
	_, err := fmt.Fprintf(out, "%d ok, %d to look at, %d failed\n", counts[doctor.OK], counts[doctor.Warn], counts[doctor.Fail])
	return err
}
