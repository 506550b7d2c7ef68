package mirror

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// Watch implements source.Watcher. It reads the changelog of the collection in the file. Without a changelog it passes
// on the informer's events.
func (m *mirror) Watch(ctx context.Context, q source.WatchQuery, fn func(source.Event) error) error {
	for _, mb := range m.all() {
		if mb.identity.ID() != q.Collection {
			continue
		}
		if mb.watchable.Err() != nil {
			return context.Cause(mb.watchable)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(mb.watchable, func() { cancel(context.Cause(mb.watchable)) })()
		if !mb.keeps {
			return source.WatchInformer(ctx, mb.informer, q, fn)
		}
		err := m.File.Watch(ctx, q, fn)
		if mb.watchable.Err() != nil {
			// If the informer is ending, the error of the file is only a consequence and is not reported.
			return context.Cause(mb.watchable)
		}
		return err
	}
	return m.File.Watch(ctx, q, fn)
}

// Log implements source.Logger. Collections that are only in memory, or not stored yet, have no changelog.
func (m *mirror) Log(ctx context.Context, q source.LogQuery, fn func(source.Logged) error) (time.Time, error) {
	for _, mb := range m.all() {
		if mb.identity.ID() == q.Collection && !mb.informer.Status().Persistent {
			return time.Time{}, consumer.ErrNotKept
		}
	}
	from, err := m.File.Log(ctx, q, fn)
	if errors.Is(err, source.ErrNoCollection) {
		return from, consumer.ErrNotKept
	}
	return from, err
}

// keepChanges makes the file keep the collection's changes for the given time; 0 keeps none. If that fails, the error
// is logged and the sync runs without a changelog.
func (mb *member) keepChanges(ctx context.Context, keep time.Duration) {
	err := mb.informer.Durable().RetainChanges(ctx, keep)
	if err != nil && !errors.Is(err, durable.ErrInMemory) {
		klog.FromContext(ctx).Error(err, "Changes are not kept for larder watch --since", "resource", mb.resource.String())
	}
	mb.keeps = err == nil && keep > 0
}

func keptBefore(ctx context.Context, st *store.Store, id entry.Identity) consumer.Kept {
	kept, err := st.Kept(ctx, id)
	if err != nil {
		return consumer.Kept{}
	}
	return kept
}

// logFreed logs that this sync, which keeps no changes, has deleted the changelog of an earlier sync. The user may not
// have intended that.
func (mb *member) logFreed(ctx context.Context, st *store.Store, was consumer.Kept, configured bool) {
	if was.For == 0 || keptBefore(ctx, st, mb.identity).For > 0 {
		return
	}
	keep := "--keep-changes " + command.Span(was.For)
	if configured {
		keep = "retention.changes: " + command.Span(was.For) + " in the configuration"
	}
	klog.FromContext(ctx).Info(
		"What an earlier sync has kept of the changes is freed: larder watch --since cannot go on after them any more",
		"resource", input.Label(mb.collection()), "keptFor", command.Span(was.For), "changes", was.Last-was.Oldest, "since",
		was.Oldest,
		"hint", keep+" keeps what changes from now on")
}
