// Package driver is the protocol of ../../README.md for drivers in Go.
package driver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Connections to PEER_URL at once.
const Connections = 64

type stamp struct{ number, us int64 }

var (
	Mode    = os.Getenv("PEER_MODE")
	Count   = number(os.Getenv("PEER_COUNT"))
	URL     = os.Getenv("PEER_URL")
	path    = os.Getenv("PEER_STAMPS")
	poster  = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: Connections, MaxConnsPerHost: Connections}}
	handled atomic.Int64
	all     = make(chan struct{})
	lock    sync.Mutex
	stamps  []stamp
)

func number(text string) int64 {
	value, _ := strconv.ParseInt(text, 10, 64)
	return value
}

func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Pool connects by libpq's variables.
func Pool(ctx context.Context, connections int32) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig("")
	Check(err)
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	Check(err)
	Check(pool.Ping(ctx))
	return pool
}

// Post delivers a payload to PEER_URL.
func Post(payload []byte) error {
	answer, err := poster.Post(URL, "application/json", bytes.NewReader(payload))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return err
}

// Handle is to be called for each payload.
func Handle(payload []byte) {
	if path != "" {
		_, rest, _ := bytes.Cut(payload, []byte(`"i":`))
		digits, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(","))
		HandleNumber(number(string(digits)))
		return
	}
	HandleNumber(0)
}

func HandleNumber(i int64) {
	if path != "" {
		now := time.Now().UnixMicro()
		lock.Lock()
		stamps = append(stamps, stamp{i, now})
		lock.Unlock()
	}
	if handled.Add(1) == Count {
		close(all)
	}
}

// Work speaks with the harness. start begins to work and returns what ends it with everything settled.
func Work(start func() (stop func())) {
	input := bufio.NewScanner(os.Stdin)
	ended := make(chan struct{})
	fmt.Println("ready")
	input.Scan()
	stop := start()
	go func() {
		for input.Scan() {
		}
		close(ended)
	}()
	if Count > 0 {
		<-all
	} else {
		<-ended
	}
	stop()
	if path != "" {
		write()
	}
	fmt.Println("done", handled.Load())
	<-ended
}

func write() {
	file, err := os.Create(path)
	Check(err)
	lines := bufio.NewWriter(file)
	lock.Lock()
	for _, one := range stamps {
		fmt.Fprintln(lines, one.number, one.us)
	}
	lock.Unlock()
	Check(lines.Flush())
	Check(file.Close())
}
