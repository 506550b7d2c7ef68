// Package starts measures how long a start takes until HasSynced, at several sizes of a collection: client-go's informer, which
// lists, beside Larder's, which resumes from its file, under both of its policies.
//
// Call [Measure], and [Markdown] for what it returns. Nothing of the collection changes while Larder is down (quiet), but
// something else at the server does before each start, so that the server's resourceVersion is never the stored one; or a
// fifth of a second never passes without a change of it (busy). The three take turns in one process, so that what else the
// machine does meets all of them alike: the ratios hold where the times do not.
package starts

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
	"github.com/larder-dev/larder/bench/internal/stat"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
)

// pause is before each start. A consistent read waits until etcd has told the watch cache where it stands, which the API
// server asks for at most ten times a second: a start that follows another at once would wait for the other's turn.
const pause = 300 * time.Millisecond

// busyObjects is the size of the busy collection, and busyEvery how often one of its objects changes.
const (
	busyObjects = 2000
	busyEvery   = 50 * time.Millisecond
)

// Row is one size of a collection. The figures are seconds.
type Row struct {
	Objects                   int
	Busy                      bool
	ClientGo, Resumed, OnDisk stat.Summary
}

// subjects are started in turn.
var subjects = []subject.Spec{
	{Library: subject.ClientGo},
	{Library: subject.Larder, Residency: "All", Policy: informer.Resumed},
	{Library: subject.Larder, Residency: "All", Policy: informer.Disk},
}

// Measure starts each subject so often at each size, and at last on a busy collection. Sizes ascend.
func Measure(ctx context.Context, sizes []int, runs int, dir string, progress io.Writer) (rows []Row, err error) {
	data := filepath.Join(dir, "cluster")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	c, err := cluster.StartReal(ctx, data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Load(ctx, load.Kinds["configmaps"], 1); err != nil {
		return nil, err
	}
	m := &measurement{c: c, runs: runs, dir: dir}
	for _, n := range sizes {
		row, err := m.row(ctx, n, false)
		if err != nil {
			return rows, fmt.Errorf("%d objects: %w", n, err)
		}
		rows = append(rows, row)
		fmt.Fprintln(progress, row)
		if n != busyObjects {
			continue
		}
		if row, err = m.row(ctx, n, true); err != nil {
			return rows, fmt.Errorf("%d busy objects: %w", n, err)
		}
		rows = append(rows, row)
		fmt.Fprintln(progress, row)
	}
	return rows, nil
}

// measurement is what the rows have in common.
type measurement struct {
	c        cluster.Cluster
	runs     int
	dir      string
	revision int
}

func (m *measurement) row(ctx context.Context, n int, busy bool) (Row, error) {
	kind := load.Kinds["pods"]
	if err := m.c.Load(ctx, kind, n); err != nil {
		return Row{}, err
	}
	file := filepath.Join(m.dir, fmt.Sprintf("pods-%d-%t.db", n, busy))
	defer func() { _ = os.Remove(file) }()
	if _, err := m.start(ctx, subjects[1], file, n); err != nil {
		return Row{}, err
	}
	if busy {
		stop := m.keepBusy(ctx, n)
		defer stop()
	}
	took := make([][]float64, len(subjects))
	for range m.runs {
		for i, s := range subjects {
			if err := m.move(ctx); err != nil {
				return Row{}, err
			}
			d, err := m.start(ctx, s, file, n)
			if err != nil {
				return Row{}, fmt.Errorf("%s: %w", s, err)
			}
			took[i] = append(took[i], d.Seconds())
		}
	}
	return Row{Objects: n, Busy: busy, ClientGo: stat.Of(took[0]), Resumed: stat.Of(took[1]), OnDisk: stat.Of(took[2])}, nil
}

// start starts a subject, and returns how long it took to HasSynced.
func (m *measurement) start(ctx context.Context, s subject.Spec, file string, n int) (time.Duration, error) {
	r, err := subject.Start(ctx, subject.Options{Spec: s, Kind: load.Kinds["pods"], Config: m.c.Access().Config(), File: file})
	if err != nil {
		return 0, err
	}
	took, err := r.AwaitSync(ctx)
	if held := len(r.Informer.GetStore().ListKeys()); err == nil && held != n {
		err = fmt.Errorf("it holds %d objects, want %d", held, n)
	}
	if r.Larder != nil && err == nil {
		if relists := r.Larder.Status().Reflector.Relists; len(relists) > 0 {
			err = fmt.Errorf("larder has listed instead of resuming: %v", relists)
		}
	}
	return took, errors.Join(err, r.Stop())
}

// move changes something else at the server, so that its resourceVersion moves on.
func (m *measurement) move(ctx context.Context) error {
	m.revision++
	if err := m.c.Change(ctx, load.Kinds["configmaps"], []int{0}, m.revision); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// keepBusy changes the objects in turn until stop is called.
func (m *measurement) keepBusy(ctx context.Context, n int) (stop func()) {
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
				_ = m.c.Change(ctx, load.Kinds["pods"], []int{i % n}, i) // the next one is as good
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}
