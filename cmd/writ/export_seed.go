package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/client/transfer"
	core "github.com/writ-id/writ/impl/core/transfer"
	"github.com/writ-id/writ/impl/dev/seed"
)

// seedFlags are those of an export that is written as a seed file.
type seedFlags struct {
	asked bool
	as    seed.As
}

func (f *seedFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.asked, "as-seed", false, "write a seed file, which writ apply takes as it is, and say what it cannot hold")
	flags.StringVar(&f.as.Instance, "instance", "default", "with --as-seed: the name of the instance in the file")
	flags.StringSliceVar(&f.as.Domains, "instance-domain", nil, "with --as-seed: a domain of the instance in the file; may be repeated")
}

// maxToldLosses bounds what is told one by one.
const maxToldLosses = 1000

// export has the server export, and writes the seed file as it arrives.
func (f *seedFlags) export(ctx context.Context, c *transfer.Client, request transfer.ExportRequest, operation string, out io.Writer) (*transfer.Summary, error) {
	losses := 0
	f.as.Lost = func(kind, id, reason string) {
		if losses++; losses <= maxToldLosses {
			c.Tell("not in the seed file: %s %s: %s", kind, id, reason)
		}
	}
	from, to := io.Pipe()
	var summary *transfer.Summary
	exported := make(chan error, 1)
	go func() {
		made, err := c.Export(ctx, request, operation, to)
		summary = made
		_ = to.CloseWithError(err)
		exported <- err
	}()
	err := seed.Write(ctx, out, core.NewReader(from, storage.Moved, func(string) {}), f.as)
	_ = from.CloseWithError(err)
	if failed := <-exported; err == nil {
		err = failed
	}
	if more := losses - maxToldLosses; more > 0 {
		c.Tell("not in the seed file: %d more", more)
	}
	if err != nil {
		return nil, fmt.Errorf("export as a seed file: %w", err)
	}
	return summary, nil
}
