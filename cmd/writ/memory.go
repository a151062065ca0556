package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/writ-id/writ/impl/doctor"
)

// limitMemory tells the garbage collector of the limit of the container, unless GOMEMLIMIT
// does: garbage may grow to four times what lives (tuneGC), which would end a small container.
func limitMemory(logger *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit, err := doctor.ContainerMemory()
	if err != nil {
		logger.Warn("the memory limit of the container is unknown", "err", err)
	}
	if limit > 0 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}
