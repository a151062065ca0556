package server

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/telemetry"
)

// readingLimit is how long those who ask for metrics wait for the database.
const readingLimit = 2 * time.Second

// readings is what is at a moment, for metrics. Queues and keys are those of all nodes.
func (s *Server) readings(ctx context.Context) (telemetry.Readings, error) {
	calls, requests := s.chain.Refused()
	r := telemetry.Readings{
		Pools:      map[string]telemetry.Pool{"calls": poolOf(s.DB.Pool), "searches": poolOf(s.DB.Search)},
		Rejections: map[string]int64{"calls": calls, "requests": requests, "searches": s.DB.Searches.Refused(), "hashes": secret.Refused()},
	}
	ctx, cancel := context.WithTimeout(ctx, readingLimit)
	defer cancel()
	at, err := db.New().Readings(ctx, s.DB.Pool, telemetry.MaxDepth)
	since := func(date time.Time) float64 {
		if date.Unix() == 0 { // there is none
			return 0
		}
		return s.Now().Sub(date).Seconds()
	}
	r.Queues = map[string]telemetry.Queue{
		"deliveries": {Depth: at.Deliveries, Age: max(0, since(at.DeliveryDue))}, "messages": {Depth: at.Messages, Age: max(0, since(at.MessageDue))},
	}
	r.KeyAge, r.KeyNext = since(at.SignsSince), -since(at.SignsNext)
	return r, err
}

func poolOf(pool *pgxpool.Pool) telemetry.Pool {
	stat := pool.Stat()
	return telemetry.Pool{
		Used: int64(stat.AcquiredConns()), Idle: int64(stat.IdleConns()), Max: int64(stat.MaxConns()),
		Waited: stat.EmptyAcquireWaitTime().Seconds(), Timeouts: stat.CanceledAcquireCount(),
	}
}
