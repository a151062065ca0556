package main

import (
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// TestREL060_KeysRotateByTheClockOfTheInstallation: a key that is made by a command signs ten
// minutes later by the clock of the nodes, be it one that was moved in development, not by that
// of the machine that the command runs on.
func TestREL060_KeysRotateByTheClockOfTheInstallation(t *testing.T) {
	t.Parallel()
	address := pgtest.New(t)
	database := pgtest.Connect(t, address, 4)
	config := servertest.Config(database)
	moved := clock.New()
	if err := moved.Apply(clock.Change{Advance: "2000h"}); err != nil {
		t.Fatal(err)
	}
	config.Now, config.Dev = moved.Now, &server.Dev{Clock: moved, Database: address}
	addr := servertest.Start(t, config)
	for name, test := range map[string]struct {
		addr string
		want time.Time
	}{
		"of the writ dev": {addr, moved.Now()}, "of the database": {"127.0.0.1:1", time.Now()},
	} {
		now, err := installationClock(t.Context(), database, address, test.addr)
		if err != nil {
			t.Fatal(err)
		}
		if off := now().Sub(test.want); off < -time.Hour || off > time.Hour {
			t.Errorf("%s: the clock is off by %s", name, off)
		}
	}
}
