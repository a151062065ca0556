package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/server"
)

// signingFlags say whose signing keys a command is about.
type signingFlags struct {
	database databaseFlag
	master   masterKeyFlags
	instance string
	addr     string
}

// sealer returns the master key, that of the writ dev whose database is taken included. To list keys
// takes none; to revoke one may make the next.
func (f *signingFlags) sealer(cmd *cobra.Command) (secret.Sealer, error) {
	if f.database.given == "" && f.master == (masterKeyFlags{}) {
		_, _, key, err := devKey(cmd.Context(), f.addr)
		if err == nil && key != nil {
			return key, nil
		}
	}
	return f.master.sealer(cmd.Name() != "list")
}

// addSigningKeys adds the commands about signing keys.
func addSigningKeys(keys *cobra.Command) {
	command := func(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, keeper *signing.Keeper, instanceID string, args []string) error) *cobra.Command {
		var f signingFlags
		cmd := &cobra.Command{Use: use, Short: short, Args: args}
		f.database.add(cmd.Flags())
		cmd.Flags().StringVar(&f.instance, "instance", "", "ID or name of the instance; the only one when empty")
		cmd.Flags().StringVar(&f.addr, "addr", "127.0.0.1:8080", "host:port of a writ dev, whose database is the default and whose clock may have been moved")
		f.master.add(cmd.Flags())
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			url, err := f.database.urlOrDev(cmd.Context(), f.addr)
			if err != nil {
				return err
			}
			database, err := store.Open(cmd.Context(), store.Config{URL: url, MaxConns: 2})
			if err != nil {
				return err
			}
			defer database.Close()
			sealer, err := f.sealer(cmd)
			if err != nil {
				return err
			}
			if err := server.ClaimMasterKey(cmd.Context(), database, sealer); err != nil {
				return err
			}
			id, err := findInstance(cmd.Context(), database, f.instance)
			if err != nil {
				return err
			}
			now, err := installationClock(cmd.Context(), database, url, f.addr)
			if err != nil {
				return err
			}
			return run(cmd, &signing.Keeper{
				Env:    resource.Env{DB: database, Now: now, NewID: newID}, // nodes are notified
				Sealer: sealer,
			}, id, args)
		}
		keys.AddCommand(cmd)
		return cmd
	}
	command("list", "List the signing keys of an instance", cobra.NoArgs, func(cmd *cobra.Command, keeper *signing.Keeper, instanceID string, _ []string) error {
		return listKeys(cmd, keeper, instanceID)
	})
	var algorithm string
	rotate := command("rotate", "Make the next signing key now; it signs ten minutes later", cobra.NoArgs,
		func(cmd *cobra.Command, keeper *signing.Keeper, instanceID string, _ []string) error {
			if chosen := signing.Algorithm(algorithm); chosen != "" && !slices.Contains(signing.Algorithms, chosen) {
				return usageError{fmt.Errorf("--algorithm: %q is none of %v", algorithm, signing.Algorithms)}
			}
			err := keeper.Tend(cmd.Context(), instanceID, signing.Rotation{Force: true, Algorithm: signing.Algorithm(algorithm)})
			if err == nil || errors.Is(err, signing.ErrWaiting) {
				err = errors.Join(err, listKeys(cmd, keeper, instanceID))
			}
			return err
		})
	rotate.Flags().StringVar(&algorithm, "algorithm", "", "RS256, ES256 or EdDSA; that of the active key when empty")
	command("revoke KEY_ID", "Forget a signing key: nothing it signed is good any more", cobra.ExactArgs(1),
		func(cmd *cobra.Command, keeper *signing.Keeper, instanceID string, args []string) error {
			if err := keeper.Revoke(cmd.Context(), instanceID, args[0]); err != nil {
				return err
			}
			return listKeys(cmd, keeper, instanceID)
		})
}

// findInstance returns the ID of an instance by ID or name, or of the only one.
func findInstance(ctx context.Context, database *store.DB, named string) (string, error) {
	queries := db.New()
	ids, err := queries.InstanceIDs(ctx, database.Pool)
	switch {
	case err != nil:
		return "", err
	case named == "" && len(ids) == 1:
		return ids[0], nil
	case named == "":
		return "", usageError{fmt.Errorf("there are %d instances: name one with --instance", len(ids))}
	case slices.Contains(ids, named):
		return named, nil
	}
	id, err := queries.InstanceByName(ctx, database.Pool, named)
	if store.NoRow(err) {
		return "", usageError{fmt.Errorf("--instance: there is no instance %q", named)}
	}
	return id, err
}

func listKeys(cmd *cobra.Command, keeper *signing.Keeper, instanceID string) error {
	keys, err := db.New().SigningKeys(cmd.Context(), keeper.DB.Pool, instanceID)
	if err != nil {
		return err
	}
	states := map[int16]string{1: "next, signs from", 2: "active since", 3: "retired, published until", 4: "past, for ID token hints until"}
	for _, key := range keys {
		if key.SignsFrom != nil && key.State == 3 {
			fmt.Fprintf(cmd.OutOrStdout(), "%s  %-5s  for applications that ask for it, signs from %s, published until %s\n", key.ID, key.Algorithm, key.SignsFrom.UTC().Format(time.RFC3339), key.DueDate.UTC().Format(time.RFC3339))
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %-5s  %s %s\n", key.ID, key.Algorithm, states[key.State], key.DueDate.UTC().Format(time.RFC3339))
	}
	if len(keys) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "there are none yet; the first one is made when it is first asked for")
	}
	return nil
}
