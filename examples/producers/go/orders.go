// An order is paid and the message about it is sent, or neither: both are one transaction.
//
//	go run . postgresql://app@localhost/shop
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// inTx runs work in a transaction; after a conflict with another one, the whole of it again.
func inTx(ctx context.Context, conn *pgx.Conn, work func(pgx.Tx) error) (err error) {
	var pgErr *pgconn.PgError
	for try := 0; try < 5; try++ {
		err = pgx.BeginFunc(ctx, conn, work)
		if !errors.As(err, &pgErr) || (pgErr.Code != "40001" && pgErr.Code != "40P01") {
			break
		}
	}
	return
}

func pay(ctx context.Context, tx pgx.Tx, order int) (id string, created bool, seq int64, err error) {
	if _, err = tx.Exec(ctx, "insert into orders values ($1, 'paid') on conflict do nothing", order); err != nil {
		return
	}
	err = tx.QueryRow(ctx, "select id::text, created, seq from outbox.enqueue($1, $2, key => $3, dedupe_key => $4)",
		"orders.paid", map[string]int{"order": order},
		fmt.Sprintf("order-%d", order), // events of one order are delivered in order
		fmt.Sprintf("paid-%d", order),  // sent once, however often this runs
	).Scan(&id, &created, &seq)
	return
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Args[1])
	if err == nil {
		_, err = conn.Exec(ctx, "create table if not exists orders (id int primary key, state text not null)")
	}
	for i := 0; i < 2 && err == nil; i++ { // the second call finds the same message
		var id, created, seq = "", false, int64(0)
		err = inTx(ctx, conn, func(tx pgx.Tx) (err error) { id, created, seq, err = pay(ctx, tx, 42); return })
		if err == nil {
			fmt.Printf("paid 42: message %s, created %t, seq %d\n", id, created, seq)
		}
	}
	if err != nil {
		panic(err)
	}
	refused := errors.New("the card was refused after all")
	if err = inTx(ctx, conn, func(tx pgx.Tx) error { _, _, _, _ = pay(ctx, tx, 43); return refused }); err == refused {
		fmt.Println("rolled back 43") // no order, no message, the dedupe key is unused
	}
}
