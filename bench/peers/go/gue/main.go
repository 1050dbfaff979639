// gue: a pool of workers, each a transaction per job.
package main

import (
	"context"
	"time"

	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"

	"peers/driver"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := gue.NewClient(pgxv5.NewConnPool(driver.Pool(ctx, 20)))
	driver.Check(err)
	workers, err := gue.NewWorkerPool(client, gue.WorkMap{"noop": func(_ context.Context, job *gue.Job) error {
		driver.Handle(job.Args)
		return nil
	}}, 16, gue.WithPoolQueue("bench"), gue.WithPoolPollInterval(5*time.Millisecond))
	driver.Check(err)
	driver.Work(func() func() {
		over := make(chan error)
		go func() { over <- workers.Run(ctx) }()
		return func() {
			time.Sleep(50 * time.Millisecond) // a job is deleted and committed after its handler
			cancel()
			<-over
		}
	})
}
