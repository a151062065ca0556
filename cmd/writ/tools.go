package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/contracts"
	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/store"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema of the database up to date, or look at it",
		Long: `The schema changes in numbered steps. Several nodes may run this at once: one
does the work, the others wait. A run that is killed can simply be run again.`,
	}
	var database databaseFlag
	database.add(cmd.PersistentFlags())
	sub := func(use, short string, run func(context.Context, string) ([]store.Migration, error)) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				url, err := database.url()
				if err != nil {
					return err
				}
				steps, err := run(cmd.Context(), url)
				for _, step := range steps {
					state := "pending"
					if !step.Applied.IsZero() {
						state = step.Applied.UTC().Format(time.RFC3339)
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%-20s  %s\n", state, step.Name)
				}
				if err == nil && len(steps) == 0 {
					fmt.Fprintln(cmd.OutOrStdout(), "the schema is up to date")
				}
				return err
			},
		})
	}
	sub("up", "Apply the pending steps and list them", store.Migrate)
	sub("status", "List all steps and when they were applied", store.Migrations)
	return cmd
}

func newReady() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Exit with 0 if the node on this machine is ready, else with 1",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			if len(addr) > 0 && addr[0] == ':' {
				addr = "127.0.0.1" + addr
			}
			if _, _, err := askDev(ctx, addr, "/readyz"); err != nil {
				return fmt.Errorf("not ready: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return nil
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "host:port the node listens on")
	return cmd
}

func newSeed() *cobra.Command {
	cmd := &cobra.Command{Use: "seed", Short: "Help with seed files: what has to exist at start"}
	document := func(use, short string, text []byte) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := cmd.OutOrStdout().Write(text)
				return err
			},
		})
	}
	document("print", "Print the seed that `writ dev` starts with, as a pattern for your own", contracts.DefaultSeed)
	document("schema", "Print the JSON Schema of seed files, for editors", openapi.SeedSchema)
	return cmd
}
