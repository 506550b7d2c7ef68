package served

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
)

// connectsAtOnce is the number of watches that are opened at the same time. arriveWithin is the timeout of the last
// event.
const (
	connectsAtOnce = 20
	arriveWithin   = 30 * time.Second
)

type changes struct {
	first, n int
	sent     []atomic.Int64 // time of each change's request in nanoseconds since 1970, by revision minus first
}

type watched struct {
	cpu        time.Duration // the server's processor time during the changes
	upstream   time.Duration // kube-apiserver's processor time during the changes
	deliveries int
	delays     []float64 // seconds from the request of a change to its arrival
	memory     int64     // growth of the server's memory in bytes
}

func (b *bench) watches(ctx context.Context) error {
	idle := map[*server]time.Duration{}
	for _, s := range b.servers() {
		before, err := proc.CPU(s.pid)
		if err != nil {
			return err
		}
		idle[s] = -before
	}
	if err := b.change(ctx, b.newChanges()); err != nil {
		return err
	}
	for _, s := range b.servers() {
		after, err := proc.CPU(s.pid)
		if err != nil {
			return err
		}
		idle[s] += after
	}
	var results []watched
	for _, s := range b.servers() {
		w, err := b.watch(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: watches: %w", s.name, err)
		}
		w.cpu -= idle[s]
		w.upstream -= idle[b.upstream]
		results = append(results, w)
	}
	theirs, ours, out := results[0], results[1], b.out
	fmt.Fprintf(b.out, "| %d watches, %d a connection, %g changes a second for %s | kube-apiserver | Larder | ratio |\n"+
		"|---|---|---|---|\n", b.Watchers, b.Shared, b.Rate, b.Last)
	row := func(name, unit string, of func(w watched) float64) {
		a, b := of(theirs), of(ours)
		fmt.Fprintf(out, "| %s | %.3g %s | %.3g %s | %.2f× |\n", name, a, unit, b, unit, b/a)
	}
	row("processor time a delivery", "µs", func(w watched) float64 {
		return w.cpu.Seconds() * 1e6 / float64(w.deliveries)
	})
	row("delay, p50", "ms", func(w watched) float64 { return quantile(w.delays, 0.5) * 1e3 })
	row("delay, p99", "ms", func(w watched) float64 { return quantile(w.delays, 0.99) * 1e3 })
	row("memory a watch", "KB", func(w watched) float64 { return float64(w.memory) / 1e3 / float64(b.Watchers) })
	fmt.Fprintf(b.out, "| processor time of kube-apiserver for the watches | %.2f s | %.2f s | %.2f× |\n",
		theirs.upstream.Seconds(), ours.upstream.Seconds(), ours.upstream.Seconds()/theirs.upstream.Seconds())
	return nil
}

func (b *bench) newChanges() *changes {
	n := int(b.Rate * b.Last.Seconds())
	c := &changes{first: b.revision + 1, n: n, sent: make([]atomic.Int64, n)}
	b.revision += n
	return c
}

// change makes the changes at the rate of the options.
func (b *bench) change(ctx context.Context, c *changes) error {
	tick := time.NewTicker(time.Duration(float64(time.Second) / b.Rate))
	defer tick.Stop()
	for i := range c.n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		c.sent[i].Store(time.Now().UnixNano())
		if err := b.cluster.Change(ctx, b.pods, []int{i * 7919 % b.Pods}, c.first+i); err != nil {
			return err
		}
	}
	return nil
}

// watch opens all watches on one server, makes the changes, and waits until the watches have received all events.
func (b *bench) watch(ctx context.Context, s *server) (w watched, err error) {
	rv, err := s.resourceVersion(ctx)
	if err != nil {
		return w, err
	}
	memory, err := proc.Anon(s.pid)
	if err != nil {
		return w, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := b.newChanges()
	all := make([]*watcher, b.Watchers)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	opening, openCtx := errgroup.WithContext(ctx)
	opening.SetLimit(connectsAtOnce)
	var client *http.Client
	for i := range all {
		if i%b.Shared == 0 {
			if client, err = s.newClient(); err != nil {
				return w, err
			}
		}
		opening.Go(func() error {
			if openCtx.Err() != nil {
				return openCtx.Err()
			}
			response, err := s.do(ctx, client, "/api/v1/pods?watch=1&resourceVersion="+rv, protobuf, false)
			if err != nil {
				return err
			}
			all[i] = &watcher{client: client, body: response.Body, of: c, done: make(chan struct{})}
			running.Go(all[i].run)
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		return w, err
	}
	before, err := proc.CPU(s.pid)
	if err != nil {
		return w, err
	}
	upstream, err := proc.CPU(b.upstream.pid)
	if err != nil {
		return w, err
	}
	if err := b.change(ctx, c); err != nil {
		return w, err
	}
	if err := arrived(ctx, all); err != nil {
		return w, err
	}
	after, err := proc.CPU(s.pid)
	if err != nil {
		return w, err
	}
	upstreamAfter, err := proc.CPU(b.upstream.pid)
	if err != nil {
		return w, err
	}
	with, err := proc.Anon(s.pid)
	if err != nil {
		return w, err
	}
	w.cpu, w.upstream, w.memory = after-before, upstreamAfter-upstream, with-memory
	cancel()
	running.Wait()
	for _, one := range all {
		w.deliveries += len(one.delays)
		w.delays = append(w.delays, one.delays...)
	}
	return w, nil
}

func arrived(ctx context.Context, all []*watcher) error {
	ctx, cancel := context.WithTimeout(ctx, arriveWithin)
	defer cancel()
	for i, w := range all {
		select {
		case <-w.done:
		case <-ctx.Done():
			return fmt.Errorf("watch %d has not seen all changes: %w", i, ctx.Err())
		}
		if w.err != nil {
			return w.err
		}
	}
	return nil
}

func (s *server) resourceVersion(ctx context.Context) (string, error) {
	path := "/api/v1/namespaces/" + load.Namespace(0) + "/pods?limit=1"
	response, err := s.do(ctx, s.client, path, "application/json", false)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(text, []byte(`"metadata":{"resourceVersion":"`))
	rv, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return "", fmt.Errorf("no resourceVersion in %.200s", text)
	}
	return string(rv), nil
}

// watcher reads a watch. To save processor time it searches each frame for the revision, without decoding the frame.
type watcher struct {
	client *http.Client
	body   io.ReadCloser
	of     *changes
	done   chan struct{} // closed after the last change, or an error

	delays []float64
	err    error
}

func (w *watcher) run() {
	defer close(w.done)
	defer func() {
		_ = w.body.Close()
		w.client.CloseIdleConnections()
	}()
	in, frame := bufio.NewReaderSize(w.body, 16<<10), []byte(nil)
	for len(w.delays) < w.of.n {
		var head [4]byte
		if _, w.err = io.ReadFull(in, head[:]); w.err != nil {
			return
		}
		frame = slices.Grow(frame[:0], int(binary.BigEndian.Uint32(head[:])))[:binary.BigEndian.Uint32(head[:])]
		if _, w.err = io.ReadFull(in, frame); w.err != nil {
			return
		}
		revision, ok := revisionOf(frame)
		if i := revision - w.of.first; ok && i >= 0 && i < w.of.n {
			w.delays = append(w.delays, time.Since(time.Unix(0, w.of.sent[i].Load())).Seconds())
		}
	}
}

// revisionOf finds the annotation in a protobuf message: a map entry has its key in field 1, and its value in field 2.
func revisionOf(frame []byte) (int, bool) {
	_, rest, ok := bytes.Cut(frame, []byte(load.RevisionAnnotation+"\x12"))
	if !ok || len(rest) < 1 || len(rest) < 1+int(rest[0]) {
		return 0, false
	}
	n, err := strconv.Atoi(string(rest[1 : 1+rest[0]]))
	return n, err == nil
}

func quantile(values []float64, p float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
