package server

import (
	"context"
	"sync"
	"time"

	"github.com/writ-id/writ/impl/api/instance"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// background starts what the node does unasked. It returns what ends it and waits until
// it has ended.
func (s *Server) background(ctx context.Context, stop func()) (end func()) {
	tasks := &background.Scheduler{DB: s.DB, Logger: s.Logger}
	if s.Dev != nil {
		tasks.Moved = s.Dev.Clock.Changed
	}
	tasks.Add(s.messages.Task())
	tasks.Add(s.deliveries.Task())
	tasks.Add(s.fanout.Task())
	tasks.Add(delivery.Follow(s.DB, s.Now))
	tasks.Add(delivery.Sweep(s.DB, s.Now, s.Deliveries))
	tasks.Add(message.Sweep(s.DB, s.Now, s.Deliveries.OrDefault().Retention))
	tasks.Add(s.transfers.Task())
	tasks.Add(background.Statistics(s.DB))
	if _, none := s.Sealer.(secret.NoKey); !none {
		tasks.Add(s.keeper.Task())
	}
	tasks.Add(background.Sweeping("events", s.Now, func(ctx context.Context, now time.Time, batch int32) (int64, error) {
		return instance.SweepEvents(ctx, s.DB, now, batch)
	}))
	tasks.Add(background.Sweeping("tokens", s.Now, s.public.Sweep))
	tasks.Add(background.Sweeping("registrations", s.Now, s.pages.Sweep))
	unheard := s.DB.OnCommit(s.fanout.Committed)
	var all sync.WaitGroup
	all.Go(func() { tasks.Run(ctx) })
	all.Go(func() { s.public.Run(ctx) })
	all.Go(func() { s.deliveries.Run(ctx) })
	all.Go(func() {
		s.DB.Listen(ctx, s.Logger, func(what string) {
			switch what {
			case store.Messages:
				s.messages.Wake.Now()
			case store.Deliveries:
				s.deliveries.Wake.Now()
			default:
				s.env.Invalidate()
				s.messages.Wake.Now()
				s.fanout.Wake.Now() // there may be somebody who hears events
			}
		})
	})
	return func() {
		unheard()
		stop()
		all.Wait()
		s.messages.Wait()
		s.courier.Close()
	}
}
