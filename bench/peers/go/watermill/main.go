// watermill-sql. PEER_SCHEMA=queue: rows deleted on ack, batches of 1000. PEER_SCHEMA=offsets: rows stay, a consumer's offset
// moves, batches of 100 (its default).
package main

import (
	"context"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"peers/driver"
)

func subscriber(ctx context.Context) *sql.Subscriber {
	config := sql.SubscriberConfig{
		PollInterval:   5 * time.Millisecond,
		SchemaAdapter:  sql.PostgreSQLQueueSchema{SubscribeBatchSize: 1000},
		OffsetsAdapter: sql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: true},
	}
	if os.Getenv("PEER_SCHEMA") == "offsets" {
		config.ConsumerGroup = "bench"
		config.SchemaAdapter = sql.DefaultPostgreSQLSchema{}
		config.OffsetsAdapter = sql.DefaultPostgreSQLOffsetsAdapter{}
	}
	found, err := sql.NewSubscriber(sql.BeginnerFromPgx(driver.Pool(ctx, 4)), config, watermill.NopLogger{})
	driver.Check(err)
	return found
}

func main() {
	ctx := context.Background()
	source := subscriber(ctx)
	if driver.Mode == "prepare" {
		driver.Check(source.SubscribeInitialize("orders"))
		return
	}
	driver.Work(func() func() {
		messages, err := source.Subscribe(ctx, "orders")
		driver.Check(err)
		go func() {
			for message := range messages {
				payload := message.Payload
				message.Ack()
				driver.Handle(payload)
			}
		}()
		return func() {
			time.Sleep(50 * time.Millisecond) // the last batch is committed after its last message
			driver.Check(source.Close())
		}
	})
}
