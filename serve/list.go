package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/parallel"
	"github.com/larder-dev/larder/store/history"
)

const (
	// pageBytes is the size, in bytes, of the objects that a list reads, renders and writes at a time. A page read from
	// the store ends with the object that exceeds readBytes.
	pageBytes = 256 << 10
	readBytes = pageBytes * 3 / 4
	// limitedBytes is the size, in bytes, after which a list with a limit ends early with a continue token.
	limitedBytes = 8 << 20
	// answerOverhead is the memory of a response besides its objects: a compressor and buffers.
	answerOverhead = 1 << 20
	// renderedFactor is the ratio between the memory for rendering and writing objects and their stored size.
	renderedFactor = 4
)

// listMemory returns the memory that a list holds for objects of the given stored size, in bytes.
func listMemory(objects int) int64 {
	return answerOverhead + renderedFactor*int64(max(objects, pageBytes))
}

const (
	// objectMemory is the memory that a get holds for an object that needs at most renderedFree for rendering.
	objectMemory = renderedFree + bodyMemory
	// bodyMemory is the memory that a get holds besides the response body.
	bodyMemory = 64 << 10
	// documentMemory is the memory that a request for discovery or the page's data holds. A request for a schema holds
	// the size of the schema as well.
	documentMemory = 2 << 20
)

// list answers a list.
func (q *request) list() error {
	l := newListing(q.collection, q.reader, q.path, q.options)
	if err := l.begin(q.ctx); err != nil {
		return err
	}
	if err := q.lease.resize(q.ctx, listMemory(0), memoryWait); err != nil {
		return err
	}
	limit := int(q.options.Limit)
	if q.options.ResourceVersion == "0" {
		limit = 0 // kube-apiserver answers from its watch cache, which ignores the limit
	}
	after := ""
	if q.options.token != nil {
		after = q.options.token.after(l.prefix())
	}
	x := extent{items: -1}
	if limit > 0 || q.format.media == mediaProtobuf {
		var err error
		if x, err = q.measure(l, after, limit); err != nil {
			return err
		}
	}
	if !x.complete {
		return q.stream(l, after, x)
	}
	meta, err := q.listMeta(l, x)
	if err != nil {
		return err
	}
	w := q.listWriter(meta)
	w.begin(x.length)
	_ = w.write(x.rendered) // end returns the error
	return w.end()
}

// extent holds properties of a list that are written before its items: with a limit, whether objects follow; in
// protobuf, the size of the items.
type extent struct {
	items  int    // the number of items; -1 for all that follow
	length int    // size of the items in protobuf, in bytes
	last   string // the key of the last item, if more is set
	more   bool   // more objects follow than the limit allows
	// complete says that rendered has all items, so that the list is not read again.
	complete bool
	rendered [][]byte
}

// gatheredBytes is how many bytes of a list are kept while it is measured, so that a short list is read only once.
const gatheredBytes = 2 * pageBytes

// measure returns the extent of a list. A list longer than gatheredBytes is read twice, at the same moment, unless its
// size is cached.
func (q *request) measure(l *listing, after string, limit int) (x extent, err error) {
	all := limit == 0 && q.options.token == nil && !q.options.selective()
	size, first := 0, true
	l.reusesMemory, x.complete = true, true
	err = l.pages(q.ctx, after, func(entries []entry.Entry, more bool) (bool, error) {
		for i, e := range entries {
			if limit > 0 && (x.items+i == limit || size > limitedBytes) {
				entries, x.more = entries[:i], true
				break
			}
			size += len(e.Payload)
			x.last = e.Key
		}
		x.items += len(entries)
		if all && first && more {
			if length, known := q.collection.lengths.of(l, q.format.form, q.itemLength); known {
				x = extent{items: -1, length: length}
				return false, nil
			}
		}
		if first = false; x.complete || q.format.media == mediaProtobuf {
			items, n, err := q.renderPage(entries)
			if err != nil {
				return false, err
			}
			x.gather(items, n, q.format.media == mediaProtobuf)
		}
		return !x.more, nil
	})
	if err == nil && all && x.items >= 0 {
		q.collection.lengths.put(l, q.format.form, x.length)
	}
	return x, err
}

// gather adds the items of a page. shared says that the items point into memory that the next page overwrites.
func (x *extent) gather(items [][]byte, length int, shared bool) {
	if x.length += length; x.complete && x.length > gatheredBytes {
		x.complete, x.rendered = false, nil
	}
	if !x.complete {
		return
	}
	for _, item := range items {
		if shared {
			item = bytes.Clone(item)
		}
		x.rendered = append(x.rendered, item)
	}
}

// holdPage acquires the memory for rendering a page of a list: at least the memory for the stored objects plus that for
// rendering the largest. It returns the memory that each object needs.
func (q *request) holdPage(entries []entry.Entry) (needs []int64, err error) {
	needs = make([]int64, len(entries))
	parallel.Each(len(entries), sizeOf(entries), func(i int) {
		needs[i] = q.collection.renderer.memory(q.format, entries[i])
	})
	least := answerOverhead + int64(sizeOf(entries)) + slices.Max(append(needs, 0))
	return needs, q.lease.resize(q.ctx, max(listMemory(sizeOf(entries)), least), freshFor)
}

// renderPage is renderAll for a page of a list. After it the request holds the memory of the page and its items.
func (q *request) renderPage(entries []entry.Entry) (items [][]byte, length int, err error) {
	needs, err := q.holdPage(entries)
	if err != nil {
		return nil, 0, err
	}
	if items, length, err = q.renderAll(entries, needs); err != nil {
		return nil, 0, err
	}
	held := answerOverhead + int64(sizeOf(entries)) + q.format.media.memory(items)
	return items, length, q.lease.resize(q.ctx, max(listMemory(0), held), freshFor)
}

// sizeOf returns the stored size of objects, in bytes.
func sizeOf(entries []entry.Entry) (n int) {
	for _, e := range entries {
		n += len(e.Payload)
	}
	return n
}

// memory returns the memory that encoded objects take while they are written, in bytes.
func (m media) memory(items [][]byte) (n int64) {
	for _, item := range items {
		n += int64(len(item))
	}
	if m == mediaYAML {
		n *= 2 // each item is indented into a copy
	}
	return n
}

// stream writes a list page by page.
func (q *request) stream(l *listing, after string, x extent) error {
	var w *listWriter
	left, length := x.items, 0
	l.reusesMemory = true
	err := l.pages(q.ctx, after, func(entries []entry.Entry, _ bool) (bool, error) {
		if left >= 0 {
			entries = entries[:min(left, len(entries))]
			left -= len(entries)
		}
		items, n, err := q.renderPage(entries)
		if err != nil {
			return false, err
		}
		if w == nil {
			meta, err := q.listMeta(l, x)
			if err != nil {
				return false, err
			}
			w = q.listWriter(meta)
			w.begin(x.length)
		}
		length += n
		return left != 0, w.write(items)
	})
	switch {
	case err != nil:
		return w.failed(err)
	case q.format.media == mediaProtobuf && length != x.length:
		q.collection.lengths.forget(l, q.format.form)
		return w.failed(fmt.Errorf("a list of %s has %d bytes, and not %d", q.collection.Identity, length, x.length))
	}
	return w.end()
}

// listMeta returns the metadata of a list, with a continue token if more objects follow.
func (q *request) listMeta(l *listing, x extent) (meta metav1.ListMeta, err error) {
	meta.ResourceVersion = l.rv
	if !x.more {
		return meta, nil
	}
	t := token{Start: startOf(x.last, l.prefix())}
	if t.RV, err = strconv.ParseInt(l.rv, 10, 64); err != nil {
		return meta, errNotListed(q.collection.Identity)
	}
	left, counted := 0, false
	switch o := q.options; {
	case o.token != nil:
		left, counted = o.token.Left, o.token.Left > 0
	case !o.selective():
		left, err = q.count(l)
		if counted = err == nil; err != nil && !errors.Is(err, history.ErrExpired) {
			return meta, errRead(err)
		}
	}
	if counted && left > x.items {
		t.Left = left - x.items
		remaining := int64(t.Left)
		meta.RemainingItemCount = &remaining
	}
	meta.Continue = t.encode()
	return meta, nil
}

// count returns the number of objects at the moment of a listing. It fails with history.ErrExpired if objects change
// during each of three attempts.
func (q *request) count(l *listing) (int, error) {
	h := q.reader.History()
	if h == nil {
		return q.reader.CountKeys(q.ctx, l.prefix())
	}
	for range 3 {
		before, _ := h.Now()
		n, err := q.reader.CountKeys(q.ctx, l.prefix())
		if err != nil {
			return 0, err
		}
		if now, _ := h.Now(); now == before {
			grown, err := h.Grown(l.at, now, l.prefix(), func(entry.Entry) int { return 1 })
			return n - grown, err
		}
	}
	return 0, history.ErrExpired
}

// renderAll renders entries on all cores. It returns the items and their size in a protobuf list. Objects that need
// much memory wait for one another, so that together they need no more than the request holds.
func (q *request) renderAll(entries []entry.Entry, needs []int64) (items [][]byte, length int, err error) {
	items, errs, cost := make([][]byte, len(entries)), make([]error, len(entries)), sizeOf(entries)
	rendering := max(q.lease.bytes-answerOverhead-int64(cost), 1)
	working := semaphore.NewWeighted(rendering)
	if q.format.media == mediaProtobuf {
		cost /= 16 // most bytes are copied
	} else {
		cost *= 4 // an object is decoded and encoded
	}
	now := time.Now()
	parallel.Each(len(entries), cost, func(i int) {
		need := min(needs[i], rendering)
		_ = working.Acquire(context.Background(), need) // it fails with its context only
		defer working.Release(need)
		items[i], errs[i] = q.collection.item(q.format, entries[i], false, now)
	})
	for i, err := range errs {
		if err != nil {
			return nil, 0, errRead(err)
		}
		length += sizeField(2, len(items[i]))
	}
	return items, length, nil
}

// itemLength returns the size of an entry in a protobuf list, in bytes.
func (q *request) itemLength(e entry.Entry) int {
	item, err := q.collection.item(q.format, e, false, time.Time{})
	if err != nil {
		return 0 // the size of the list will not match, and the list fails
	}
	return sizeField(2, len(item))
}
