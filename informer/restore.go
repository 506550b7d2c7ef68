package informer

import (
	"context"
	"os"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// detectsMutations is whether client-go's mutation detector is on: then it gets every stored object.
var detectsMutations = func() bool {
	on, err := strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))
	return err == nil && on
}()

// restore gives the stored objects to the handlers that were registered before the start: the first page before the
// stream is touched, the others meanwhile (see backlog). What an interrupted cold start has left is not a state, and
// nobody is told of it: the first list removes it. Where nobody waits for the objects none is read. A store that can
// not be read is waited for. restore returns an error only if ctx has ended or the store is closed.
func (p *loop) restore(ctx context.Context) error {
	var info store.Info
	err := p.readRetry(ctx, func() (err error) {
		info, err = p.store.Info(ctx)
		return err
	})
	if err == nil && info.Complete {
		klog.FromContext(ctx).Info("Serving objects from disk", "type", p.o.ObjectDescription, "representation",
			p.o.Identity.Representation,
			"objects", info.Objects, "asOf", info.LastContact, "resourceVersion", info.ResourceVersion)
		err = p.replayStored(ctx)
	}
	p.replay = nil
	if err == nil && info.Complete && p.o.SyncPolicy == Disk {
		p.sync.complete()
	}
	return err
}

// replayStored gives the first page of the stored objects to the handlers, which read the others as they get to them.
// What cannot be read is listed anew.
func (p *loop) replayStored(ctx context.Context) error {
	var lost []delivery.Unreadable
	for _, l := range p.replay {
		l.StartReplay(true)
	}
	for _, l := range p.replay {
		err := p.readRetry(ctx, func() error {
			bad, err := p.givePage(ctx, l)
			p.reportUnreadable(ctx, bad)
			lost = append(lost, bad...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if detectsMutations {
		if err := p.readRetry(ctx, func() error { return p.detectStored(ctx) }); err != nil {
			return err
		}
	}
	if len(lost) > 0 {
		return p.replaceUnreadable(ctx, lost)
	}
	return nil
}

// detectStored gives the stored objects to the mutation detector: readers may have them, too.
func (p *loop) detectStored(ctx context.Context) error {
	_, err := p.eachStored(ctx, "", func(_ string, obj runtime.Object) error {
		p.detector.AddObject(obj)
		return nil
	})
	return err
}

// readRetry repeats a read until it succeeds.
func (p *loop) readRetry(ctx context.Context, read func() error) error {
	repaired := false
	for delay := storeBackoff(); ; {
		err := read()
		if err == nil {
			p.healthy(ctx)
			return nil
		}
		if ctx.Err() != nil || isClosed(err) {
			return err
		}
		p.unhealthy(ctx, err)
		if needsRebuild(err) && p.repair(ctx) == nil && !repaired {
			repaired = true
			continue
		}
		if err := patient.Sleep(ctx, p.clock, delay.Step()); err != nil {
			return err
		}
	}
}

// replaceUnreadable sees to it that records which could not be read are written anew.
func (p *loop) replaceUnreadable(ctx context.Context, lost []delivery.Unreadable) error {
	damaged := func(u delivery.Unreadable) bool { return needsRebuild(u.Err) }
	if slices.ContainsFunc(lost, damaged) && p.file != nil {
		return p.readRetry(ctx, func() error { return p.repair(ctx) })
	}
	p.health.setRewriting(reflector.ReasonUnreadable)
	p.lackUntilListed()
	p.relist(reflector.ReasonUnreadable)
	return nil
}

// reportUnreadable logs what eachStored has left out. The caller holds no lock.
func (i *Informer) reportUnreadable(ctx context.Context, lost []delivery.Unreadable) {
	for _, u := range lost {
		utilruntime.HandleErrorWithContext(ctx, u.Err, "Stored object cannot be read", "type", i.o.ObjectDescription, "key",
			u.Key)
	}
}

// eachStored calls fn for each object whose key is after the given one. Records that cannot be read are left out and
// returned, for the caller to report. err is a failure to read anything at all, or fn's.
func (i *Informer) eachStored(
	ctx context.Context, after string, fn func(key string, obj runtime.Object) error,
) (lost []delivery.Unreadable, err error) {
	var fnErr error
	err = i.store.Iterate(ctx, after, func(key string, obj runtime.Object) error {
		after = key
		fnErr = fn(key, obj)
		return fnErr
	})
	if err == nil || fnErr != nil || ctx.Err() != nil || isClosed(err) {
		return nil, err
	}
	// Some record is bad: go on one by one.
	keys, err := i.store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if key <= after {
			continue
		}
		obj, err := i.store.Get(ctx, key)
		switch {
		case ctx.Err() != nil || isClosed(err):
			return lost, err
		case err != nil:
			lost = append(lost, delivery.Unreadable{Key: key, Err: err})
		case obj != nil:
			if err := fn(key, obj); err != nil {
				return lost, err
			}
		}
	}
	return lost, nil
}
