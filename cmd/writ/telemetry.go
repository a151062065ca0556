package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/writ-id/writ/impl/core/telemetry"
)

// measure makes what the flags and the environment want measured and traced; stop sends
// the rest.
func (f *nodeFlags) measure(ctx context.Context, logger *slog.Logger) (stop func(), err error) {
	f.telemetry, err = telemetry.New(ctx, telemetry.Config{
		Prometheus: f.metricsAddr != "", Version: version(),
		Failed: func(err error) { logger.Warn("telemetry", "err", err) },
	})
	return sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := f.telemetry.Stop(ctx); err != nil {
			logger.Warn("telemetry that was not sent", "err", err)
		}
	}), err
}
