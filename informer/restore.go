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
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
)

// detectsMutations is true if client-go's mutation detector is on: then it gets every stored object.
var detectsMutations = func() bool {
	on, err := strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))
	return err == nil && on
}()

// restore gives the stored objects to the handlers that were registered before the start: the first page before the
// first delta is processed, the others later (see delivery's backlog). It skips an incomplete state that an interrupted
// cold start has left: the first list removes that. It reads nothing if there are no handlers. If the store cannot be
// read, it tries again; it returns an error only if ctx has ended or the store is closed.
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

// replayStored gives the first page of the stored objects to the handlers, which read later pages themselves. It
// requests a list for objects that cannot be read.
func (p *loop) replayStored(ctx context.Context) error {
	var lost []delivery.Unreadable
	for _, l := range p.replay {
		l.StartReplay(true, true)
	}
	for _, l := range p.replay {
		err := p.readRetry(ctx, func() error {
			bad, err := p.distribution.give(ctx, l)
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

// detectStored gives the stored objects to the mutation detector, since readers may modify them too.
func (p *loop) detectStored(ctx context.Context) error {
	_, err := p.distribution.each(ctx, "", func(_ string, obj runtime.Object) error {
		p.detector.AddObject(obj)
		return nil
	})
	return err
}

// readRetry calls read until it succeeds. Between attempts it repairs the store if necessary, and waits. It returns an
// error only if ctx has ended or the store is closed.
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

// replaceUnreadable repairs the store if records are damaged, and otherwise requests a list that rewrites every body.
func (p *loop) replaceUnreadable(ctx context.Context, lost []delivery.Unreadable) error {
	damaged := func(u delivery.Unreadable) bool { return needsRebuild(u.Err) }
	if slices.ContainsFunc(lost, damaged) && p.file != nil {
		return p.readRetry(ctx, func() error { return p.repair(ctx) })
	}
	p.listUnreadable()
	return nil
}

// listUnreadable requests a list that rewrites every body, since some cannot be read. It decodes every object, and so
// does the store from now on with each that comes in; what cannot be decoded is left out.
func (p *loop) listUnreadable() {
	p.health.distrusts.Store(true)
	p.health.setRewriting(reflector.ReasonUnreadable)
	p.lackUntilListed()
	p.relist(reflector.ReasonUnreadable)
}
