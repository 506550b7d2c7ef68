package informer

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/reflector/wire"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// beginList begins a list: it opens a store.Replacement, whose objects replace all stored objects when the list ends.
func (p *loop) beginList(ctx context.Context, s listStart) error {
	p.abortList()
	p.sync.listBegun()
	return p.commit(ctx, func() (entry.Result, error) {
		info, err := p.store.Info(ctx)
		if err != nil {
			return entry.Result{}, err
		}
		if reflector.Reason(info.MustRelist).Lasts() {
			s.options.Rewrite = true // the end of a list clears every stored reason, so this list must rewrite too
		}
		list, err := p.store.BeginReplace(ctx, s.options)
		if err == nil {
			p.list, p.cold, p.rewrites, p.listBegun = list, !info.Complete, s.options.Rewrite, true
			p.listReason = s.reason
			p.auditor.ListBegun(s.reason == reflector.ReasonDamaged)
		}
		return entry.Result{}, err
	}, p.distributeListed)
}

// takePage stores a page of a list. In a cold start (no list was ever complete) it also distributes the page to the
// handlers.
func (p *loop) takePage(ctx context.Context, pg page) error {
	return p.take(ctx, func() (entry.Result, error) {
		return p.list.Page(ctx, pg.items, pg.leftOut...)
	})
}

// foldIn stores changes that arrive during the list. It skips bookmarks, because the end of the list has a higher
// resourceVersion.
func (p *loop) foldIn(ctx context.Context, deltas []fifo.Delta) error {
	for _, d := range deltas {
		op, ok := opOf(d)
		if !ok {
			continue
		}
		err := p.take(ctx, func() (entry.Result, error) { return p.list.Event(ctx, op) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *loop) take(ctx context.Context, attempt func() (entry.Result, error)) error {
	p.backpressure(ctx)
	return p.commit(ctx, p.observed(attempt), p.distributeListed)
}

func (p *loop) distributeListed(changes []entry.Change) { p.distribute(changes, true) }

// finishList commits the list. After each transaction it distributes that transaction's changes, because all changes
// may not fit in memory. Between transactions deltasMu is free, and the store has exactly the state that was
// distributed. The store applies deletes first, so handlers receive them first, as in client-go.
func (p *loop) finishList(ctx context.Context, resourceVersion string) error {
	for more := true; more; {
		attempt := p.observed(func() (entry.Result, error) {
			res, err := p.list.Commit(ctx, entry.Batch{ResourceVersion: resourceVersion, LastContact: p.contactTime()})
			more = res.More
			return res, err
		})
		err := p.commit(ctx, attempt, func(changes []entry.Change) {
			if more {
				p.distributeListed(changes)
			} else {
				p.endList(changes)
			}
		})
		if err != nil {
			return err
		}
	}
	if p.cold && p.file != nil {
		p.sync.saving++
		p.savers.Go(func() { p.saveFirstList(ctx) })
	}
	p.auditor.ListEnded()
	if p.o.SyncPolicy == Disk {
		p.sync.complete()
	}
	return nil
}

// saveFirstList commits the first list, which is in the memtable, and then notifies the process loop, which may report
// the informer as synced. So a synced informer's first list survives a crash. It retries until ctx ends or the store is
// closed. Meanwhile the process loop continues.
func (p *loop) saveFirstList(ctx context.Context) {
	for delay := storeBackoff(); ; {
		err := p.file.Flush(ctx)
		switch {
		case err == nil:
			p.asks.ToNoteSaved()
			return
		case isClosed(err) || base.Sleep(ctx, p.clock, delay.Step()) != nil:
			return
		}
	}
}

// endList distributes the last changes of a committed list.
func (p *loop) endList(changes []entry.Change) {
	p.list, p.listDue = nil, false
	p.sync.missing.Store(false)
	if p.rewrites {
		p.health.setRewriting("")
	}
	if p.rewrites || p.listReason == reflector.ReasonDamaged {
		p.indexer.ClearErr() // the list has replaced the unreadable records
	}
	p.distributeListed(changes)
	p.rewrites = false
}

func (p *loop) abortList() {
	if p.list != nil {
		p.list.Abort()
		p.list = nil
		p.auditor.ListGivenUp()
	}
}

// A list by metadata lists only metadata and then fetches the changed objects one by one. It pays off if the mean
// object has at least largeBody bytes, and at least largeShare times the size of its metadata.
const (
	largeBody  = 8 << 10
	largeShare = 4
	// measured is the number of stored objects whose sizes metadataPays reads to estimate the mean.
	measured = 64
)

// metadataPays reports whether the stored objects are so large that listing metadata and fetching the changed objects
// transfers less than a full list. It measures the stored objects, after the transform. It returns false after an
// interrupted list that has stored some objects, because Info.Attributes does not describe those.
func (i *sharedInformer) metadataPays(ctx context.Context) bool {
	info, err := i.store.Info(ctx)
	if err != nil || !info.Complete || info.MustRelist == store.MustRelistInterrupted {
		return false
	}
	objects, err := i.store.Select(ctx, query.Query{Limit: measured})
	if err != nil || len(objects) == 0 {
		return false
	}
	var bodies, metadata int64
	for _, obj := range objects {
		m, err := meta.Accessor(obj)
		if err != nil {
			return false
		}
		bodies += sizeOf(obj)
		metadata += sizeOf(meta.AsPartialObjectMetadata(m))
	}
	return bodies >= largeBody*int64(len(objects)) && bodies >= largeShare*metadata
}

// refsPage is the payload of a fifo.ReplacedByRef delta: a page of a list by metadata, as references to objects.
type refsPage struct {
	refs []entry.ObjectRef
	// missing holds the references whose listed state is not stored. The process loop sets missing for sink.Known.
	missing []entry.ObjectRef
}

// Known implements reflector.Sink. It queues references to listed objects, and returns the references whose listed
// state is not stored.
func (s *sink) Known(ctx context.Context, refs []entry.ObjectRef) (missing []entry.ObjectRef, err error) {
	p := &refsPage{refs: refs}
	err = s.queue.Push(ctx, fifo.Delta{Delta: cache.Delta{Type: fifo.ReplacedByRef, Object: p}, Count: len(refs)})
	if err == nil {
		err = s.queue.WaitIdle(ctx)
	}
	return p.missing, err
}

// takeRefs handles a page of a list by metadata. The store compares the references with its records, not with the
// objects in memory, which handlers share and may have modified.
func (p *loop) takeRefs(ctx context.Context, pg *refsPage) error {
	return p.take(ctx, func() (res entry.Result, err error) {
		if pg.missing = pg.refs; p.cold {
			return entry.Result{}, nil
		}
		pg.missing, res, err = p.list.Known(ctx, pg.refs)
		return res, err
	})
}

// requester is a ListerWatcher that exposes its requests, such as the one of requests.ListWatch.
type requester interface {
	Request(o metav1.ListOptions) *rest.Request
}

type metadataLister interface {
	ListMetadata(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
}

// listed returns the ListerWatcher for the reflector. Its objects are undecoded if the informer's ListerWatcher exposes
// its requests, so that the informer can read the answers itself.
func (i *sharedInformer) listed() (lw cache.ListerWatcherWithContext, undecoded bool) {
	lw = cache.ToListerWatcherWithContext(i.lw)
	r, ok := i.lw.(requester)
	if !ok || i.o.ClientDecodes {
		return lw, false
	}
	sent := codec.NewSent(i.o.Codec, i.example, i.Identity().LabelSelector != "")
	if sent == nil {
		return lw, false
	}
	return wire.New(i.accepting(r.Request, sent), sent), true
}

// accepting returns request with the Accept header of the chosen encoding; see Options.ServerVersion.
func (i *sharedInformer) accepting(request wire.Requests, sent *codec.Sent) wire.Requests {
	if i.o.ServerVersion == nil || i.o.Identity.Representation != entry.Unstructured {
		return request
	}
	version := i.o.ServerVersion
	if !sent.ReadsProtobuf(i.example) {
		version = nil
	}
	i.encoding = attributes.NewEncoding(version)
	return func(o metav1.ListOptions) *rest.Request { return request(o).SetHeader("Accept", i.encoding.Accept()) }
}

// decodes reports whether a handler or the mutation detector needs the objects of changes.
func (i *sharedInformer) decodes() bool { return i.hasHandlers() || detectsMutations }

// decodesAtOnce reports whether each received object must be decoded before it is stored: a handler needs it, or an
// undecodable object was found before. Then undecodable objects are left out, and readers find none.
func (i *sharedInformer) decodesAtOnce() bool { return i.decodes() || i.health.distrustsNow() }

// decode decodes the objects of a change. An undecodable old state becomes nil, like an unreadable one.
func decode(c *entry.Change) (err error) {
	if c.Old, err = entry.Decoded(c.Old); err != nil {
		c.Old = nil
	}
	if c.New, err = entry.Decoded(c.New); err != nil && c.Type == cache.Deleted {
		c.New, err = nil, nil
	}
	return err
}
