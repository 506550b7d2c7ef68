package informer

import (
	"context"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// mender is what an informer wants of a file that can be repaired in place: see store.Store.Mend and the methods of store.Collection.
type mender interface {
	Mend(ctx context.Context) ([]store.Mended, error)
	TakeLost() (keys []string, unknown int)
	Resumable(ctx context.Context, losses int) error
}

type fileMender struct {
	*store.Store
	*store.Collection
}

// repairInPlace repairs the file record by record. It is not done if that takes a rebuild, or if the file has not failed: then whoever
// met the damage is to have it checked.
func (p *pump) repairInPlace(ctx context.Context) (done bool, err error) {
	if p.mendFile == nil {
		return false, nil
	}
	p.refetching.Store(true) // the reflector may be about to ask whether it can resume
	defer func() { p.refetching.Store(p.fetches > 0) }()
	mended, err := p.mendFile.Mend(ctx)
	switch {
	case needsRebuild(err):
		klog.FromContext(ctx).Info("The store can not be repaired in place; writing it anew", "type", p.o.ObjectDescription, "why", err)
		return false, nil
	case err != nil:
		p.unhealthy(ctx, fmt.Errorf("repair the store: %w", err))
		return false, err
	case mended == nil && p.lossesNow() == p.losses: // else another informer has repaired it this moment
		return false, nil
	}
	p.noteRestored(ctx, mended)
	if n := p.lossesNow(); n != p.losses {
		p.losses = n
		if !p.refetch(ctx) && !p.void {
			p.listDamaged(ctx)
		}
	}
	return true, nil
}

// noteRestored records what the repair has written again from memory. Nobody was shown anything else.
func (p *pump) noteRestored(ctx context.Context, mended []store.Mended) {
	id := p.Identity()
	for _, m := range mended {
		if m.Identity != id {
			continue
		}
		var f findings
		for _, key := range m.Restored {
			held, _, err := p.store.Ref(ctx, key)
			if err != nil {
				held = store.ObjectRef{Key: key}
			}
			f.add(Finding{Key: key, Kind: Restored, Server: reflector.ObjectRef(held)})
		}
		p.noteIncident(ctx, CauseDamaged, "", f)
	}
}

// refetch asks the server for the objects that a repair of the file has lost, whoever made it. It is false if it is not known which they are: then
// everything has to be listed. While a list is due anyway it does nothing.
func (p *pump) refetch(ctx context.Context) bool {
	if p.mendFile == nil {
		return false
	}
	keys, unknown := p.mendFile.TakeLost()
	if p.unseen == nil {
		p.unseen = map[string]bool{}
	}
	for _, key := range keys {
		p.unseen[key] = true
	}
	if len(keys) == 0 || unknown > 0 {
		return false
	}
	if p.void {
		return true
	}
	klog.FromContext(ctx).Info("The store has lost objects; fetching them again", "type", p.o.ObjectDescription, "objects", len(keys))
	p.lack(true)
	p.fetches++
	p.refetching.Store(true)
	ex := p.examinations.begin(p.refetched)
	p.examinations.add(ex, keys)
	p.examinations.seal(ex)
	p.examine(keys...)
	return true
}

// refetched is called when all of them are back, or known to be gone, or have been listed.
func (p *pump) refetched(ctx context.Context, ex *examination) {
	p.fetches--
	p.refetching.Store(p.fetches > 0)
	p.noteIncident(ctx, CauseDamaged, "", ex.found)
	if ex.relisted || p.void || p.listDue || p.fetches > 0 {
		return // the list, or the last of them, makes the file whole
	}
	p.lack(false)
	if err := p.mendFile.Resumable(ctx, p.losses); err != nil && ctx.Err() == nil {
		utilruntime.HandleErrorWithContext(ctx, err, "The next start will list, although nothing is missing", "type", p.o.ObjectDescription)
	}
}

// listDamaged asks for a list, since it is not known what was lost.
func (p *pump) listDamaged(ctx context.Context) { p.listAgain(ctx, reflector.ReasonDamaged) }

// paySync completes the first sync if its mark came too early.
func (p *pump) paySync() {
	if p.owesSync {
		p.owesSync = false
		p.queue.Sync()
		p.drainsApplied.Store(p.drains)
	}
}
