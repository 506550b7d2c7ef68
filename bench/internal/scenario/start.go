package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
)

func runCold(ctx context.Context, b *Bench) (Result, error) {
	return b.run(ctx, nil, func(r *subject.Running) (Result, error) {
		took, err := r.AwaitSync(ctx)
		if err != nil {
			return nil, err
		}
		result := Result{"synced": took.Seconds(), "bytes": float64(r.Network.Received())}
		return b.addMemory(result), b.complete(r)
	})
}

func runColdHandler(ctx context.Context, b *Bench) (Result, error) {
	w := subject.NewWitness(b.Kind, b.Case.N, "", 0)
	return b.run(ctx, w, func(r *subject.Running) (Result, error) {
		if err := await(ctx, "the last OnAdd", w.Added); err != nil {
			return nil, err
		}
		result := b.addMemory(Result{"told": w.AddedAt.Sub(r.Started).Seconds()})
		return result, errors.Join(r.AwaitDelivered(ctx), b.complete(r))
	})
}

// runRestart measures a restart. With the sync policy Disk, which needs no server, it reports only the time.
func runRestart(ctx context.Context, b *Bench) (Result, error) {
	return b.run(ctx, nil, func(r *subject.Running) (Result, error) {
		took, err := r.AwaitSync(ctx)
		if err != nil {
			return nil, err
		}
		result := Result{}
		if r.Larder == nil || b.Case.Subject.Policy == informer.Disk {
			result["synced_disk"] = took.Seconds()
		}
		if b.Case.Subject.Policy != informer.Disk {
			result["synced_resumed"], result["bytes"] = took.Seconds(), float64(r.Network.Received())
			result[ServerCPU] = 0
		}
		return result, errors.Join(b.complete(r), b.resumed(r))
	})
}

func runRestartHandler(ctx context.Context, b *Bench) (Result, error) {
	w := subject.NewWitness(b.Kind, b.Case.N, "", 0)
	return b.run(ctx, w, func(r *subject.Running) (Result, error) {
		if err := await(ctx, "the last OnAdd", w.Added); err != nil {
			return nil, err
		}
		result := b.addMemory(Result{"told": w.AddedAt.Sub(r.Started).Seconds()})
		return result, errors.Join(r.AwaitDelivered(ctx), b.resumed(r))
	})
}

func runRestartChanged(ctx context.Context, b *Bench) (Result, error) {
	w := b.witness()
	return b.run(ctx, w, func(r *subject.Running) (Result, error) {
		if err := await(ctx, "the last change", w.Seen); err != nil {
			return nil, err
		}
		result := Result{"seen": time.Since(r.Started).Seconds()}
		_, err := r.AwaitSync(ctx)
		result["bytes"] = float64(r.Network.Received())
		return result, errors.Join(err, b.resumed(r))
	})
}
