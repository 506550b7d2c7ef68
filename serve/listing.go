package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/history"
)

// freshFor is how long a request waits for a collection to reach a resourceVersion.
const freshFor = 3 * time.Second

// listing reads a collection page by page in the state of one resourceVersion. Later changes are undone.
type listing struct {
	c       *collection
	r       reader
	path    path
	options *listOptions
	selects func(entry.Entry) (bool, error)

	// at is the history position of the state that the list shows. If at is zero, the first page sets it.
	at history.Position
	rv string
	// begun is the state of the collection when the first page was read, possibly in an earlier pass.
	begun *entry.Info

	// reusesMemory is true if all pages use one buffer: the callback of pages must not keep their entries.
	reusesMemory bool
}

var memories = sync.Pool{New: func() any { return new([]byte) }}

func newListing(c *collection, r reader, p path, o *listOptions) *listing {
	return &listing{c: c, r: r, path: p, options: o, selects: matcherOf(c, o)}
}

func (l *listing) prefix() string {
	if l.path.namespace != "" {
		return l.path.namespace + "/"
	}
	return ""
}

// begin waits for up to freshFor until the collection reaches the requested resourceVersion. If the client requests
// exactly that state, or has a continue token, begin selects the state. Otherwise the first page selects it.
func (l *listing) begin(ctx context.Context) error {
	o := l.options
	switch {
	case o.token != nil && o.token.RV == inconsistentRV:
		return nil
	case o.token != nil:
		if err := l.exactly(strconv.FormatInt(o.token.RV, 10)); errors.Is(err, history.ErrExpired) {
			return errExpiredContinue(o.token.Start)
		} else if !errors.Is(err, history.ErrAhead) {
			return err
		}
		if err := l.awaitRV(ctx, uint64(o.token.RV)); err != nil {
			return err
		}
		if l.exactly(strconv.FormatInt(o.token.RV, 10)) != nil {
			return errExpiredContinue(o.token.Start)
		}
		return nil
	case o.rv == 0:
		return nil
	}
	if err := l.awaitRV(ctx, o.rv); err != nil {
		return err
	}
	if o.ResourceVersionMatch == metav1.ResourceVersionMatchExact || o.ResourceVersionMatch == "" && o.Limit > 0 {
		if l.exactly(o.ResourceVersion) != nil {
			return errExpiredList()
		}
	}
	return nil
}

// exactly selects the state at a resourceVersion. It fails with history.ErrExpired if the history no longer has that
// state, and with history.ErrAhead if the collection has not reached it.
func (l *listing) exactly(rv string) (err error) {
	h := l.r.History()
	if h == nil {
		if rv != l.c.ResourceVersion {
			return history.ErrExpired
		}
		return nil
	}
	l.rv = rv
	l.at, err = h.Find(rv, true)
	return err
}

func (l *listing) awaitRV(ctx context.Context, rv uint64) error { return awaitRV(ctx, l.c, l.r, rv) }

func awaitRV(ctx context.Context, c *collection, r reader, rv uint64) error {
	h := r.History()
	if h == nil {
		if now, _ := strconv.ParseUint(c.ResourceVersion, 10, 64); now < rv {
			return errTooLarge(rv, c.ResourceVersion)
		}
		return nil
	}
	timer := time.NewTimer(freshFor)
	defer timer.Stop()
	for {
		changed := h.Changed()
		_, now := h.Now()
		if n, _ := strconv.ParseUint(now, 10, 64); n >= rv {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return errTooLarge(rv, now)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pages calls fn for each page of the listed objects, in key order and with the selectors applied. All pages show one
// state of the collection, which is selected before the first call. The first page may be empty. more says whether
// further pages follow. fn returns false to stop.
func (l *listing) pages(ctx context.Context, after string, fn func(_ []entry.Entry, more bool) (bool, error)) error {
	memory := memories.Get().(*[]byte)
	defer func() {
		if cap(*memory) <= 2*pageBytes { // larger buffers are not pooled: no budget would count them
			memories.Put(memory)
		}
	}()
	for {
		o := store.PageOptions{After: after, Prefix: l.prefix(), Bytes: readBytes}
		if l.reusesMemory {
			o.Memory = memory
		}
		p, err := l.r.Page(ctx, o)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return errRead(err)
		}
		if h := l.r.History(); !p.Info.Complete || h != nil && !h.Settled() {
			return errNotListed(l.c.Identity)
		}
		entries, err := l.undo(&p, after)
		if err != nil {
			return err
		}
		if gone, _ := l.r.superseded(); gone || l.r.History() == nil && l.overtaken(p.Info) {
			return errNotListed(l.c.Identity) // without a history, changes since the previous page cannot be undone
		}
		if entries, err = l.selected(entries); err != nil {
			return err
		}
		if more, err := fn(entries, p.More); err != nil || !more || !p.More {
			return err
		}
		after = p.Last
	}
}

func (l *listing) overtaken(now entry.Info) bool {
	if l.begun == nil {
		l.begun = &now
	}
	return l.rv != now.ResourceVersion || l.begun.NextSeq != now.NextSeq || l.begun.Objects != now.Objects ||
		l.begun.MustRelist != now.MustRelist
}

// errNotListed is the 429 for a collection whose first list, or whose relist, has not ended.
func errNotListed(id entry.Identity) error {
	err := apierrors.NewTooManyRequests("storage is (re)initializing: a list of "+
		id.GroupResource().String()+" has not ended", 1)
	return err
}

// undo returns the entries of a page in the state of the collection that the list shows: it replaces entries that have
// changed since then by their earlier versions.
func (l *listing) undo(p *store.Page, after string) ([]entry.Entry, error) {
	none := history.Position{}
	if l.at == none {
		if l.rv == "" {
			l.rv = p.Info.ResourceVersion
		}
		l.at = p.At
		return p.Entries, nil
	}
	if l.at == p.At {
		return p.Entries, nil
	}
	olds, err := l.r.History().Undo(l.at, p.At)
	if err != nil {
		return nil, l.expired(after)
	}
	maps.DeleteFunc(olds, func(key string, _ *entry.Entry) bool {
		return key <= after || p.More && key > p.Last || !strings.HasPrefix(key, l.prefix())
	})
	if len(olds) == 0 {
		return p.Entries, nil
	}
	entries := slices.DeleteFunc(p.Entries, func(e entry.Entry) bool {
		_, changed := olds[e.Key]
		return changed
	})
	for _, old := range olds {
		if old != nil {
			entries = append(entries, *old)
		}
	}
	slices.SortFunc(entries, func(a, b entry.Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries, nil
}

// expired returns the 410 for a list whose state is lost. With a continue token it offers a new one after the key
// after.
func (l *listing) expired(after string) error {
	if l.options.token != nil {
		return errExpiredContinue(startOf(after, l.prefix()))
	}
	return errExpiredList()
}

// selected returns the entries that match the selectors. The result uses the memory of its argument.
func (l *listing) selected(entries []entry.Entry) ([]entry.Entry, error) {
	if l.selects == nil {
		return entries, nil
	}
	selected := entries[:0]
	for _, e := range entries {
		ok, err := l.selects(e)
		if err != nil {
			return nil, errRead(err)
		}
		if ok {
			selected = append(selected, e)
		}
	}
	return selected, nil
}

// lengths caches the sizes of a collection's protobuf lists. In protobuf a list's size precedes its items, so a large
// list is read twice if its size is not cached. It is safe for concurrent use.
type lengths struct {
	mu    sync.Mutex
	known map[lengthKey]length
}

// lengthKey identifies a list by its objects' key prefix (a namespace, or "" for all) and by the form of its items.
type lengthKey struct {
	prefix string
	form   form
}

type length struct {
	at    history.Position
	rv    string
	bytes int
}

const maxLengths = 1000

// of returns the total size of a list's items in protobuf: the cached size, plus the changes since then. itemSize
// returns the size of one item. ok is false if no size is cached, or if the changes are no longer known.
func (s *lengths) of(l *listing, f form, itemSize func(entry.Entry) int) (bytes int, ok bool) {
	s.mu.Lock()
	known, ok := s.known[lengthKey{l.prefix(), f}]
	s.mu.Unlock()
	h := l.r.History()
	switch {
	case !ok:
		return 0, false
	case h == nil:
		return known.bytes, known.rv == l.rv
	}
	grown, err := h.Grown(known.at, l.at, l.prefix(), itemSize)
	if err != nil {
		return 0, false
	}
	s.put(l, f, known.bytes+grown)
	return known.bytes + grown, true
}

func (s *lengths) forget(l *listing, f form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, lengthKey{l.prefix(), f})
}

func (s *lengths) put(l *listing, f form, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxLengths {
		clear(s.known)
	}
	s.known[lengthKey{l.prefix(), f}] = length{l.at, l.rv, bytes}
}
