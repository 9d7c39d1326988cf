package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tundish/internal/bank"
	"tundish/internal/destination"
	"tundish/internal/queue"
)

// DemoOptions say what the demo shows.
type DemoOptions struct {
	Rate    int64 // requests per second that the bank allows
	Jobs    int   // pushed at once
	Workers int   // that share the rate
	Live    bool  // the view is a terminal: its line is written over and over
}

// ErrVerdict says that the demo ran and the bank was not content.
var ErrVerdict = errors.New("the verdict is not clean")

// demo is one run of the demo.
type demo struct {
	o        DemoOptions
	e        *embedded
	url      string
	view     io.Writer
	accepted atomic.Int64
	refused  atomic.Int64 // answers 429
	start    time.Time
}

// RunDemo pushes a burst at a bank, lets workers drain it while view shows how
// it goes, and answers what the bank saw. The error is nil only when all was
// delivered, nothing twice, and no sliding second saw more than the rate. When
// ctx ends it, the error is its cause, and the result is what was seen until then.
func RunDemo(ctx context.Context, o DemoOptions, view io.Writer) (DemoResult, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	e, err := startEmbedded(ctx, embeddedConfig{listen: "127.0.0.1:0", workers: o.Workers, bankListen: "127.0.0.1:0", writeLogs: true,
		bank: bank.Config{Rate: o.Rate, Per: time.Second, Latency: 20 * time.Millisecond, Refuse: false}}, log)
	if err != nil {
		return DemoResult{}, cmp.Or(context.Cause(ctx), err)
	}
	defer e.stop()
	d := &demo{o: o, e: e, url: "http://" + e.enqueuer.Addr() + "/v1/destinations/bank/jobs", view: view, start: time.Now()}
	return d.run(ctx)
}

func (d *demo) run(ctx context.Context) (DemoResult, error) {
	capacity := max(1, d.o.Jobs*4/5)
	doc := fmt.Sprintf(`{"target":{"http":{"url":"http://%s/pay"}},"limits":[{"name":"tps","algorithm":"leaky_bucket","rate":%d,"per":"1s"}],"queue":{"capacity":%d}}`,
		d.e.bankAddr, d.o.Rate, capacity)
	if err := d.e.apply(ctx, "bank", doc); err != nil {
		return DemoResult{}, cmp.Or(context.Cause(ctx), err)
	}
	fmt.Fprintf(d.view, "A bank allows %d requests a second. %d jobs are pushed at once into a queue of %d; %d workers share the rate.\n\n",
		d.o.Rate, d.o.Jobs, capacity, d.o.Workers)
	err := d.deliver(ctx)
	if d.o.Live {
		fmt.Fprintln(d.view)
	}
	return d.verdict(err)
}

// deliver pushes all and waits until all are done. What ctx ends has its cause as the error.
func (d *demo) deliver(ctx context.Context) error {
	long := time.Minute + 3*time.Duration(d.o.Jobs)*time.Second/time.Duration(d.o.Rate)
	ctx, cancel := context.WithTimeoutCause(ctx, long, fmt.Errorf("not all jobs were delivered within %s", destination.FormatDuration(long.Truncate(time.Second))))
	pushed := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { pushed <- d.push(ctx) })
	defer wg.Wait()
	defer cancel()
	if err := d.watch(ctx, pushed); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// push sends all jobs from 32 callers; one that is told to wait does.
func (d *demo) push(ctx context.Context) error {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	numbers, failed := make(chan int), make(chan error, 32)
	for range 32 {
		wg.Go(func() {
			for n := range numbers {
				if err := d.pushOne(ctx, client, n); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for n := range d.o.Jobs {
		select {
		case numbers <- n:
		case err := <-failed:
			close(numbers)
			wg.Wait()
			return err
		}
	}
	close(numbers)
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (d *demo) pushOne(ctx context.Context, client *http.Client, n int) error {
	body, _ := json.Marshal(map[string]any{"idempotency_key": fmt.Sprintf("order-%d", n), "body": map[string]any{"order": n, "amount": "12.30"}})
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // for the error below
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusAccepted:
			d.accepted.Add(1)
			return nil
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			d.refused.Add(1)
			seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			if err != nil {
				return fmt.Errorf("status %d without a Retry-After", resp.StatusCode)
			}
			select {
			case <-time.After(time.Duration(seconds) * time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
		default:
			return fmt.Errorf("push: %s: %s", resp.Status, text)
		}
	}
}

// watch shows the run until all jobs are done.
func (d *demo) watch(ctx context.Context, pushed <-chan error) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for done := false; ; {
		select {
		case err := <-pushed:
			if err != nil {
				return err
			}
			done, pushed = true, nil
		case <-tick.C:
			dest, err := d.e.enqueuer.store.Destination(ctx, "bank")
			if err != nil {
				return err
			}
			d.show(dest.Live)
			if done && dest.Live.Depth == 0 {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *demo) show(l queue.Live) {
	arrivals, _ := d.e.bank.Arrivals()
	second, now := 0, bank.Monotonic()
	for _, a := range arrivals {
		if now-a.At < int64(time.Second) {
			second++
		}
	}
	line := fmt.Sprintf("%5.1f s   accepted %4d   told to wait %4d   queue %4d   at the bank %4d   in the last second %3d",
		time.Since(d.start).Seconds(), d.accepted.Load(), d.refused.Load(), l.Depth, len(arrivals), second)
	if d.o.Live {
		fmt.Fprintf(d.view, "\r%s", line)
		return
	}
	fmt.Fprintln(d.view, line)
}
