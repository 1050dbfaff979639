// River with its batch completer, which is on by default, many workers and short cooldowns.
package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"peers/driver"
)

type noop struct {
	I   int64  `json:"i"`
	Pad string `json:"pad"`
}

func (noop) Kind() string { return "noop" }

func main() {
	ctx := context.Background()
	pool := driver.Pool(ctx, 10)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if driver.Mode == "prepare" {
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
		driver.Check(err)
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		driver.Check(err)
		return
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[noop]) error {
		if driver.URL != "" {
			if err := driver.Post(job.EncodedArgs); err != nil {
				return err
			}
		}
		driver.HandleNumber(job.Args.I)
		return nil
	}))
	most := 5000
	if driver.URL != "" {
		most = driver.Connections
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: most}},
		Workers:           workers,
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 100 * time.Millisecond,
		JobTimeout:        -1,
		Logger:            quiet,
	})
	driver.Check(err)
	driver.Work(func() func() {
		driver.Check(client.Start(ctx))
		return func() { driver.Check(client.Stop(ctx)) }
	})
}
