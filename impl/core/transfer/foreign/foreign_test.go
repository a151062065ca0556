package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/core/transfer/foreign"
)

// read is what came of a file.
type read struct {
	items map[string][]transfer.Item // by list
	lost  []string                   // kind id: reason
	err   error
}

func (r *read) users() map[string]*transferv1.TransferUser {
	byName := map[string]*transferv1.TransferUser{}
	for _, item := range r.items["users"] {
		byName[item.(*transferv1.TransferUser).GetUsername()] = item.(*transferv1.TransferUser)
	}
	return byName
}

// loses reports whether a line of the report has all these words.
func (r *read) loses(words ...string) bool {
	for _, line := range r.lost {
		missing := false
		for _, word := range words {
			missing = missing || !strings.Contains(line, word)
		}
		if !missing {
			return true
		}
	}
	return false
}

func readAll(format string, file io.ReadSeeker, options foreign.Options) *read {
	r := &read{items: map[string][]transfer.Item{}}
	options.Lost = func(kind, id, reason string) {
		r.lost = append(r.lost, fmt.Sprintf("%s %s: %s", kind, id, reason))
	}
	source, err := foreign.Open(format, file, options)
	if err != nil {
		r.err = err
		return r
	}
	for {
		kind, item, err := source.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			r.err = err
			return r
		}
		r.items[kind.Name] = append(r.items[kind.Name], item)
	}
}

func readFile(t *testing.T, format, name string, options foreign.Options) *read {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r := readAll(format, file, options)
	if r.err != nil {
		t.Fatalf("%s: %v", name, r.err)
	}
	return r
}
