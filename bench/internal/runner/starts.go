package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
)

const startRuns = 15

// pause is the time before each start. A consistent read waits for etcd's progress notification to the watch cache,
// which the API server requests at most ten times a second. Without the pause a start would wait because of its
// predecessor's request.
const pause = 300 * time.Millisecond

// busyObjects is the number of objects in the collection that changes during the measurement. busyEvery is the interval
// of its changes.
const (
	busyObjects = 2000
	busyEvery   = 50 * time.Millisecond
)

// started lists the compared informers, in the order of their turns. Each has the key of its time in the results of
// scenario restart.
var started = []struct {
	spec subject.Spec
	key  string
}{
	{subject.Spec{Library: subject.ClientGo}, "synced_resumed"},
	{subject.Spec{Library: subject.Larder, Residency: subject.All, Policy: informer.Resumed}, "synced_resumed"},
	{subject.Spec{Library: subject.Larder, Residency: subject.All, Policy: informer.Disk}, "synced_disk"},
}

// Starts measures the time from a start to HasSynced at several sizes of a collection, in ascending order. client-go's
// informer lists, and Larder's resumes from its file, with both policies. Starts writes a table of medians, with the
// fastest and the slowest start in parentheses.
//
// In the quiet rows no object of the collection changes while Larder is down. Another object changes before each start,
// so the server's resourceVersion always differs from the stored one. In the busy row an object of the collection
// changes every 50 ms. The three subjects take turns in one process. So other load on the machine affects all subjects,
// and ratios are reliable even if times are not.
func Starts(ctx context.Context, sizes []int, dir, command string, out io.Writer) (err error) {
	c, err := cluster.StartReal(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Load(ctx, load.KindOf("configmaps"), 1); err != nil {
		return err
	}
	fmt.Fprintf(out, `Start to HasSynced, pods, no handler, medians of %d (%s):

| objects | client-go | Larder, Resumed | Larder, Disk | Resumed / client-go | Disk / client-go |
|---|---|---|---|---|---|
`, startRuns, "`"+command+"`")
	h := &host{cluster: c, kind: load.KindOf("pods"), dir: dir, stored: map[string]bool{}}
	for _, n := range sizes {
		for _, busy := range []bool{false, true} {
			if busy && n != busyObjects {
				continue
			}
			row, err := h.starts(ctx, n, busy)
			if err != nil {
				return fmt.Errorf("%d objects: %w", n, err)
			}
			fmt.Fprintln(out, row)
		}
	}
	return nil
}

func (h *host) starts(ctx context.Context, n int, busy bool) (string, error) {
	if err := h.cluster.Load(ctx, h.kind, n); err != nil {
		return "", err
	}
	row := fmt.Sprintf("| %d quiet", n)
	file := filepath.Join(h.dir, fmt.Sprintf("pods-%d-%t.db", n, busy))
	defer func() { _ = os.Remove(file) }()
	if err := h.prepare(ctx, file, false); err != nil {
		return "", err
	}
	if busy {
		row = fmt.Sprintf("| %d busy", n)
		defer h.keepBusy(ctx, n)()
	}
	took := make([][]float64, len(started))
	for range startRuns {
		for i, s := range started {
			c := scenario.Case{Scenario: "restart", N: n, Subject: s.spec, Access: h.cluster.Access(), File: file}
			result, err := h.start(ctx, c)
			if err != nil {
				return "", fmt.Errorf("%s: %w", s.spec, err)
			}
			took[i] = append(took[i], result[s.key])
		}
	}
	var medians []float64
	for _, seconds := range took {
		s := report.Summarize(seconds)
		medians = append(medians, s.Median)
		row += fmt.Sprintf(" | %.0f ms (%.0f ms – %.0f ms)", s.Median*1e3, s.Min*1e3, s.Max*1e3)
	}
	return fmt.Sprintf("%s | %.2f× | %.2f× |", row, medians[1]/medians[0], medians[2]/medians[0]), nil
}

// start changes an object outside the collection, so that the server's resourceVersion advances. Then it measures a
// start.
func (h *host) start(ctx context.Context, c scenario.Case) (scenario.Result, error) {
	h.revision++
	if err := h.cluster.Change(ctx, load.KindOf("configmaps"), []int{0}, h.revision); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(pause):
	}
	measure, err := scenario.Measure(c)
	if err != nil {
		return nil, err
	}
	return measure(ctx, &scenario.Bench{Case: c, Kind: h.kind})
}

func (h *host) keepBusy(ctx context.Context, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(busyEvery)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = h.cluster.Change(ctx, h.kind, []int{i % n}, i) // an error is ignored: the next change is made all the same
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
