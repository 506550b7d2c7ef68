package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// writes is the number of bytes written so far. store is Larder's own count. io is the kernel's count for the whole
// process, which omits memory file systems.
type writes struct{ store, io int64 }

func writesOf(s *store.Store) (w writes, err error) {
	if s != nil {
		w.store = s.Written()
	}
	w.io, err = proc.WrittenBytes()
	return w, err
}

func (w writes) addTo(result Result, earlier writes, suffix string, events int) {
	result["written"+suffix] = float64(w.store-earlier.store) / float64(events)
	result["io"+suffix] = float64(w.io-earlier.io) / float64(events)
}

// tally counts the updates that a handler received. If the handler is far behind, Larder merges several updates of an
// object into one call. A rate counts only calls, because a merged update costs the handler no work.
type tally struct{ delivered, merged int }

// tallyOf returns the updates delivered so far. The informer must be running: the number of merged updates is unknown
// after its end.
func tallyOf(r *subject.Running, w *subject.Witness) tally {
	t := tally{delivered: w.Updates()}
	if r.Larder != nil {
		for _, h := range r.Larder.Status().Handlers {
			t.merged += h.Merged
		}
	}
	return t
}

func (t tally) since(earlier tally) tally {
	return tally{delivered: t.delivered - earlier.delivered, merged: t.merged - earlier.merged}
}

// check returns an error unless the handler received each of the made updates, in a separate call or merged.
func (t tally) check(made int) error {
	if t.delivered+t.merged != made {
		return fmt.Errorf("%d updates were made, but the handler was told of %d, and %d were merged into those",
			made, t.delivered, t.merged)
	}
	return nil
}

func (t tally) rate(took time.Duration) Result {
	return Result{
		"rate": float64(t.delivered) / took.Seconds(), "told": float64(t.delivered),
		"told" + Reference: float64(t.delivered + t.merged),
	}
}

type followed struct {
	tally
	took     time.Duration
	received int64
	before   writes
}

// follow waits until the handler has received all objects, lets the driver make the changes, and waits until the
// handler has received the last change. With hold, the network is blocked until the changes are made. If the changes
// have a rate, the network is blocked only until they begin.
func (b *Bench) follow(
	ctx context.Context, r *subject.Running, w *subject.Witness, hold func(*subject.Network),
) (f followed, err error) {
	if err := r.AwaitDelivered(ctx); err != nil {
		return f, err
	}
	hold(r.Network)
	if err := b.Ready(); err != nil {
		return f, err
	}
	if f.before, err = writesOf(r.Store); err != nil {
		return f, err
	}
	earlier, received, start := tallyOf(r, w), r.Network.Received(), time.Now()
	r.Network.Release()
	err = await(ctx, "the last change", w.Seen)
	f.took, f.received, f.tally = time.Since(start), r.Network.Received()-received, tallyOf(r, w).since(earlier)
	return f, err
}

// runUpdates blocks the network until the driver has made all changes. Then the informer never waits for the server,
// and works at its highest rate.
func runUpdates(ctx context.Context, b *Bench) (Result, error) {
	w := b.witness()
	return b.run(ctx, w, func(r *subject.Running) (Result, error) {
		updates, err := b.follow(ctx, r, w, (*subject.Network).Hold)
		if err != nil {
			return nil, err
		}
		result := updates.rate(updates.took)
		return result, errors.Join(updates.check(b.Case.Made), b.addDurable(ctx, r, result), b.resumed(r))
	})
}

// runWithoutHandler is runUpdates for an informer without a handler: it polls the store for the last change.
func runWithoutHandler(ctx context.Context, b *Bench) (Result, error) {
	return b.run(ctx, nil, func(r *subject.Running) (Result, error) {
		if _, err := r.AwaitSync(ctx); err != nil {
			return nil, err
		}
		r.Network.Hold()
		if err := b.Ready(); err != nil {
			return nil, err
		}
		start := time.Now()
		r.Network.Release()
		for {
			obj, _, err := r.Informer.GetIndexer().GetByKey(b.markerKey())
			if err != nil {
				return nil, err
			}
			if revision, _ := load.Revision(obj); revision >= b.Case.Revision {
				return Result{"rate": float64(b.Case.Made) / time.Since(start).Seconds()}, b.resumed(r)
			}
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	})
}

// commitInterval is the default of store.Options.CommitInterval.
const commitInterval = time.Second

// addDurable adds the time from now, when the handler has received the last change, until that change is committed.
func (b *Bench) addDurable(ctx context.Context, r *subject.Running, result Result) error {
	if r.Larder == nil {
		return nil
	}
	delivered := time.Now()
	commit, err := r.AwaitCommit(ctx)
	if err != nil {
		return err
	}
	result["durable"], result["durable"+Reference] = time.Since(delivered).Seconds(), (commitInterval + commit).Seconds()
	kindCodec, err := codec.For(b.Kind.Example)
	if err != nil {
		return err
	}
	view, err := r.Store.ViewWith(ctx, r.Larder.Identity(), kindCodec)
	if err != nil {
		return err
	}
	obj, err := view.Get(ctx, b.markerKey())
	if revision, _ := load.Revision(obj); err == nil && revision < b.Case.Revision {
		err = fmt.Errorf("nothing is pending, and the file has revision %d of %s, want %d",
			revision, b.markerKey(), b.Case.Revision)
	}
	return err
}

func runLatency(ctx context.Context, b *Bench) (Result, error) {
	var took []float64
	w := b.witness()
	w.OnUpdated = func(obj any) {
		if revision, made := load.Revision(obj); revision == b.Case.Revision {
			took = append(took, float64(time.Now().UnixNano()-made)/1e3)
		}
	}
	_, err := b.run(ctx, w, func(r *subject.Running) (Result, error) {
		_, err := b.follow(ctx, r, w, func(*subject.Network) {})
		return nil, errors.Join(err, b.resumed(r))
	})
	if err != nil {
		return nil, err
	}
	// No handler runs any more, so the list of latencies is complete.
	return quantiles(took, b.Case.Made)
}

// quantiles returns the quantiles of the measured latencies. It fails unless there is a latency for each update.
func quantiles(took []float64, made int) (Result, error) {
	if len(took) != made {
		return nil, fmt.Errorf("%d updates were made, but the handler was told of %d", made, len(took))
	}
	slices.Sort(took)
	// The quantile by the nearest-rank method is the smallest latency that at least percent of all latencies do not
	// exceed.
	quantile := func(percent int) float64 { return took[max(0, (percent*made+99)/100-1)] }
	return Result{"p50": quantile(50), "p99": quantile(99)}, nil
}

func runFlash(ctx context.Context, b *Bench) (Result, error) {
	w := b.witness()
	return b.run(ctx, w, func(r *subject.Running) (Result, error) {
		updates, err := b.follow(ctx, r, w, (*subject.Network).Hold)
		if err != nil {
			return nil, err
		}
		// A list would write unchanged objects and skip updates, so the case must not have listed.
		err = errors.Join(updates.check(b.Case.Made), b.resumed(r))
		suffix := ""
		if b.Case.Subject.CommitInterval != 0 {
			suffix = seldom
		}
		result := Result{}
		return result, errors.Join(err, addWritten(result, r, updates.before, suffix, b.Case.Made))
	})
}

// runRelist measures a relist: it cuts the network until the server has lost its watch history.
func runRelist(ctx context.Context, b *Bench) (Result, error) {
	w := b.witness()
	return b.run(ctx, w, func(r *subject.Running) (Result, error) {
		if _, err := r.AwaitSync(ctx); err != nil {
			return nil, err
		}
		list, err := b.follow(ctx, r, w, (*subject.Network).Cut)
		if err != nil {
			return nil, err
		}
		result := b.addMemory(Result{"bytes": float64(list.received)})
		if r.Larder == nil {
			return result, nil
		}
		if relists := r.Larder.Status().Reflector.Relists; relists[reflector.ReasonExpired] != 1 {
			err = fmt.Errorf("larder has not listed because of a 410: %v", relists)
		}
		size, _, sizeErr := r.Store.Size()
		result["written"+Reference], result["io"+Reference] = float64(size), float64(size)
		return result, errors.Join(err, sizeErr, addWritten(result, r, list.before, "", 1))
	})
}

// addWritten stops the informer, which commits its dirty changes. It adds to the result the bytes written since the
// count before.
func addWritten(result Result, r *subject.Running, before writes, suffix string, events int) error {
	err := r.Stop()
	after, countErr := writesOf(r.Store)
	after.addTo(result, before, suffix, events)
	return errors.Join(err, countErr)
}
