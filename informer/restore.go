package informer

import (
	"context"
	"os"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
)

// detectsMutations is true if client-go's mutation detector is enabled. The detector then gets every stored object.
var detectsMutations = func() bool {
	on, err := strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))
	return err == nil && on
}()

// restore queues the stored objects for the handlers that were registered before the start: the first page before the
// first delta is processed, later pages afterwards. It ignores the incomplete state of an interrupted cold start, which
// the first list replaces. If the store cannot be read, it retries. It returns an error only if ctx has ended or the
// store is closed.
func (p *loop) restore(ctx context.Context) error {
	var info entry.Info
	err := p.readRetry(ctx, func() (err error) {
		info, err = p.store.Info(ctx)
		return err
	})
	if leftOutUndecodable(info) {
		p.health.distrusts.Store(true)
	}
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

// replayStored queues the first page of the stored objects for each handler, and requests a list for unreadable ones.
func (p *loop) replayStored(ctx context.Context) error {
	var lost []delivery.Unreadable
	for _, l := range p.replay {
		l.StartReplay(true, true)
	}
	for _, l := range p.replay {
		err := p.readRetry(ctx, func() error {
			bad, err := p.distribution.queuePage(ctx, l)
			p.distribution.report(ctx, bad)
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

// detectStored passes the stored objects to the mutation detector, because readers may modify them too.
func (p *loop) detectStored(ctx context.Context) error {
	_, err := p.distribution.each(ctx, "", func(_ string, obj runtime.Object) error {
		p.detector.AddObject(obj)
		return nil
	})
	return err
}

// readRetry repeats a read of the store until it succeeds, as persist repeats a write.
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
		if err := base.Sleep(ctx, p.clock, delay.Step()); err != nil {
			return err
		}
	}
}

// replaceUnreadable repairs the store if records are damaged, and otherwise requests a list that rewrites every stored
// object.
func (p *loop) replaceUnreadable(ctx context.Context, lost []delivery.Unreadable) error {
	damaged := func(u delivery.Unreadable) bool { return needsRebuild(u.Err) }
	if slices.ContainsFunc(lost, damaged) && p.file != nil {
		return p.readRetry(ctx, func() error { return p.repair(ctx) })
	}
	p.listUnreadable()
	return nil
}

// listUnreadable requests a list that rewrites every stored object, because some are unreadable. From then on every
// received object is decoded before it is stored, and undecodable ones are left out.
func (p *loop) listUnreadable() {
	p.health.distrusts.Store(true)
	p.health.setRewriting(reflector.ReasonUnreadable)
	p.markMissing()
	p.relist(reflector.ReasonUnreadable)
}
