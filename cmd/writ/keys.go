package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/ready"
	"github.com/writ-id/writ/impl/server"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Look at, rotate and revoke keys",
		Long: `Tokens are signed with the keys of their instance, which rotate by themselves:
each is published before it signs and verified until what it signed has expired.

The master key keeps secrets that have to be readable again, such as those
private keys and those of authenticator apps, unreadable in the database and in
its backups. It is a Tink keyset in a file; every node reads it with
--master-key-file.`,
	}
	newMaster := &cobra.Command{Use: "new-master FILE", Short: "Make a master key in a new file", Args: cobra.ExactArgs(1)}
	keep := newMaster.Flags().Bool("if-missing", false, "succeed, and change nothing, when the file holds a master key already: for what runs at every start")
	newMaster.RunE = func(_ *cobra.Command, args []string) error {
		if *keep {
			if _, err := readMasterKey("", args[0]); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return newMasterKey(args[0])
	}
	cmd.AddCommand(newMaster, newRotateMaster())
	addSigningKeys(cmd)
	return cmd
}

func newMasterKey(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return usageError{fmt.Errorf("%s is there already; what it seals could not be read without it", path)}
	}
	key, err := secret.NewMasterKey()
	if err != nil {
		return err
	}
	return writeMasterKey(path, key)
}

func writeMasterKey(path string, key *secret.MasterKey) error {
	text, err := key.Text()
	if err != nil {
		return err
	}
	return ready.WriteText(path, []byte(text))
}

func newRotateMaster() *cobra.Command {
	var path string
	var database databaseFlag
	cmd := &cobra.Command{
		Use:   "rotate-master",
		Short: "Exchange the master key while nodes run, in four steps",
		Long: `Each step but reseal changes the file; give it to every node and restart them, one
after the other, before the next step.

  add      a new key is in the file; nodes can read what it will seal
  switch   the new key seals
  reseal   what the old key has sealed in the database is sealed anew
  drop     the old key leaves the file`,
		Example: `  writ keys rotate-master add --master-key-file master.json
  writ keys rotate-master reseal --master-key-file master.json --database-url …`,
	}
	cmd.PersistentFlags().StringVar(&path, "master-key-file", "", "the file with the master key")
	step := func(use, short string, run func(*cobra.Command, *secret.MasterKey) (*secret.MasterKey, error)) *cobra.Command {
		one := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return rotate(cmd, path, run)
		}}
		cmd.AddCommand(one)
		return one
	}
	step("add", "Add a new key that opens but does not seal yet", func(_ *cobra.Command, key *secret.MasterKey) (*secret.MasterKey, error) {
		if n, _ := key.Keys(); n > 1 {
			return nil, usageError{errors.New("the file holds two keys already; finish that exchange first")}
		}
		return key.Add()
	})
	step("switch", "Let the new key seal", func(_ *cobra.Command, key *secret.MasterKey) (*secret.MasterKey, error) {
		if n, switched := key.Keys(); n < 2 || switched {
			return nil, usageError{errors.New("there is no new key to switch to; add one first")}
		}
		return key.Switch()
	})
	resealing := step("reseal", "Seal anew what the old key has sealed", func(cmd *cobra.Command, key *secret.MasterKey) (*secret.MasterKey, error) {
		return nil, reseal(cmd, &database, key)
	})
	database.add(resealing.Flags())
	step("drop", "Take the old key out of the file", func(_ *cobra.Command, key *secret.MasterKey) (*secret.MasterKey, error) {
		if n, switched := key.Keys(); n > 1 && !switched {
			return nil, usageError{errors.New("the newest key does not seal yet: switch and reseal first")}
		}
		return key.Drop()
	})
	return cmd
}

// rotate takes a step: what it makes of the key in a file takes its place, if it makes any.
func rotate(cmd *cobra.Command, path string, step func(*cobra.Command, *secret.MasterKey) (*secret.MasterKey, error)) error {
	key, err := readMasterKey("", path)
	if err != nil {
		return usageError{err}
	}
	if key == nil {
		return usageError{errors.New("--master-key-file is required")}
	}
	changed, err := step(cmd, key)
	if err != nil || changed == nil {
		return err
	}
	return writeMasterKey(filepath.Clean(path), changed)
}

// reseal seals anew in the database what the old key has sealed.
func reseal(cmd *cobra.Command, database *databaseFlag, key *secret.MasterKey) error {
	url, err := database.url()
	if err != nil {
		return err
	}
	db, err := store.Open(cmd.Context(), store.Config{URL: url, MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := server.CheckMasterKey(cmd.Context(), db, key); err != nil {
		return err
	}
	for _, one := range storage.Sealed {
		n, err := one.Reseal(cmd.Context(), db, key)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d %s sealed anew\n", n, one.What)
	}
	return server.ReleaseMasterKeys(cmd.Context(), db, key)
}

// readMasterKey reads the master key from a text or a file; nil for none.
func readMasterKey(text, file string) (*secret.MasterKey, error) {
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--master-key-file: %w", err)
		}
		text = string(content)
	}
	if text == "" {
		return nil, nil
	}
	return secret.ReadMasterKey(text)
}
