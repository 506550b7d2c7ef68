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
	// pageBytes is how many bytes of objects a list reads, renders and writes at a time. A page that is read for it ends
	// with the object that exceeds readBytes.
	pageBytes = 256 << 10
	readBytes = pageBytes * 3 / 4
	// limitedBytes is how large a list with a limit may become before it ends with a continue token.
	limitedBytes = 8 << 20
	// answerOverhead is what an answer takes besides its objects: a compressor and buffers.
	answerOverhead = 1 << 20
	// renderedFactor is how many times the size of stored objects they take while they are rendered and written.
	renderedFactor = 4
)

// listMemory is what a list holds of the budget for memory while it holds objects of so many bytes.
func listMemory(objects int) int64 {
	return answerOverhead + renderedFactor*int64(max(objects, pageBytes))
}

const (
	// objectMemory is what a get holds while it reads and renders an object, unless that takes more than renderedFree.
	objectMemory = renderedFree + bodyMemory
	// bodyMemory is what the answer to a get holds besides its body.
	bodyMemory = 64 << 10
	// documentMemory is what the answer to a request for discovery or the page's data holds, and what that for a schema
	// holds besides the schema.
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
		limit = 0 // a watch cache answers, which does not page
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
	_ = w.write(x.rendered) // end has the error
	return w.end()
}

// extent is what has to be known of a list before its first item is written: a limit and a length come before the
// items.
type extent struct {
	items  int    // how many there are; -1 for all that follow
	length int    // of the items, in protobuf
	last   string // the key of the last item, if more is set
	more   bool   // objects follow that exceed the limit
	// complete says that the whole list is in rendered, so that it is not read again.
	complete bool
	rendered [][]byte
}

// gatheredBytes is how much of a list is kept while it is measured, so that a short one is not read twice.
const gatheredBytes = 2 * pageBytes

// measure returns the extent of a list. A list that is longer than gatheredBytes is read twice, at the same moment,
// unless its length is known.
func (q *request) measure(l *listing, after string, limit int) (x extent, err error) {
	all := limit == 0 && q.options.token == nil && !q.options.selective()
	size, first := 0, true
	l.passing, x.complete = true, true
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

// gather adds the items of a page. shared says that they are in memory that the next page is read into.
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

// holdPage has the request hold the memory for rendering a page of a list: at least for the objects, and for the one
// that takes most. It returns the memory that each takes.
func (q *request) holdPage(entries []entry.Entry) (needs []int64, err error) {
	needs = make([]int64, len(entries))
	parallel.Each(len(entries), sizeOf(entries), func(i int) {
		needs[i] = q.collection.renderer.memory(q.format, entries[i])
	})
	least := answerOverhead + int64(sizeOf(entries)) + slices.Max(append(needs, 0))
	return needs, q.lease.resize(q.ctx, max(listMemory(sizeOf(entries)), least), freshFor)
}

// renderPage is renderAll for a page of a list. The request then holds the memory of the page and its items.
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

// sizeOf returns the size of objects as they are stored, in bytes.
func sizeOf(entries []entry.Entry) (n int) {
	for _, e := range entries {
		n += len(e.Payload)
	}
	return n
}

// memory is what encoded objects take while they are written, in bytes.
func (m media) memory(items [][]byte) (n int64) {
	for _, item := range items {
		n += int64(len(item))
	}
	if m == mediaYAML {
		n *= 2 // each is indented
	}
	return n
}

// stream writes a list page by page.
func (q *request) stream(l *listing, after string, x extent) error {
	var w *listWriter
	left, length := x.items, 0
	l.passing = true
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

// listMeta returns the metadata of a list, with a continue token if objects follow.
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

// count returns the number of objects at the moment of a listing. It gives up with history.ErrExpired while objects
// change all the time.
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

// renderAll returns the items of entries, made on all cores, and the length that they take in a protobuf list. Objects
// that need much memory wait for one another: together they need no more than the request holds for them.
func (q *request) renderAll(entries []entry.Entry, needs []int64) (items [][]byte, length int, err error) {
	items, errs, cost := make([][]byte, len(entries)), make([]error, len(entries)), sizeOf(entries)
	rendering := max(q.lease.bytes-answerOverhead-int64(cost), 1)
	working := semaphore.NewWeighted(rendering)
	if q.format.media == mediaProtobuf {
		cost /= 16 // most is copied
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

// itemLength is what an entry takes of a protobuf list.
func (q *request) itemLength(e entry.Entry) int {
	item, err := q.collection.item(q.format, e, false, time.Time{})
	if err != nil {
		return 0 // the list will not have that length, and fail
	}
	return sizeField(2, len(item))
}
