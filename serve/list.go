package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/history"
)

const (
	// pageBytes is the size, in bytes, of the objects that a list reads, renders and writes at a time. readBytes is the
	// size at which the read of a page from the store stops, after the object that exceeds it.
	pageBytes = 256 << 10
	readBytes = pageBytes * 3 / 4
	// limitedBytes bounds the stored size, in bytes, of a list with a limit. A longer list ends early, with a continue
	// token.
	limitedBytes = 8 << 20
	// answerOverhead is the memory of a response besides its objects, in bytes: a compressor and buffers.
	answerOverhead = 1 << 20
	// renderedFactor is the memory needed to render and write objects, as a multiple of their stored size.
	renderedFactor = 4
)

func listMemory(objects int) int64 {
	return answerOverhead + renderedFactor*int64(max(objects, pageBytes))
}

const (
	// objectMemory is the memory that a get acquires from the budget before it reads its object. It suffices for an
	// object that needs at most renderedFree to be rendered.
	objectMemory = renderedFree + bodyMemory
	// bodyMemory is the memory that a get acquires from the budget in addition to that of the response body.
	bodyMemory = 64 << 10
	// documentMemory is the memory that a request for discovery, or for the data of the web page, acquires from the
	// budget. A request for an OpenAPI schema also acquires the size of the schema.
	documentMemory = 2 << 20
)

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
		limit = 0 // for resourceVersion=0 kube-apiserver's watch cache ignores the limit
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
	_ = w.write(x.rendered) // end returns the error of write
	return w.end()
}

// extent holds the properties of a list that must be known before its items are written.
type extent struct {
	// items is the number of items; -1 for all objects from the start of the list to its end.
	items  int
	length int
	// last is the key of the last item. It is only used if more is true.
	last string
	more bool
	// complete is true if rendered has all items, so that the list need not be read again.
	complete bool
	rendered [][]byte
}

// gatheredBytes: a list of at most that many rendered bytes is kept while it is measured, and read only once.
const gatheredBytes = 2 * pageBytes

// measure reads a list to determine its extent, which is written before the items. It renders the items and keeps up to
// gatheredBytes of them. A longer list is read again for its response, in the same state. A protobuf list of a cached
// size is not measured.
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

// gather adds the rendered items of a page to the extent, unless the list is longer than gatheredBytes. shared says
// that the items point into memory that the next page overwrites, so that they must be copied.
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

// holdPage acquires the memory for rendering a page of a list, and returns the memory that each object needs. It
// acquires at least the memory of the stored objects plus the memory for rendering the largest one.
func (q *request) holdPage(entries []entry.Entry) (needs []int64, err error) {
	needs = make([]int64, len(entries))
	base.Parallel(len(entries), sizeOf(entries), func(i int) {
		needs[i] = q.collection.renderer.memory(q.format, entries[i])
	})
	least := answerOverhead + int64(sizeOf(entries)) + slices.Max(append(needs, 0))
	return needs, q.lease.resize(q.ctx, max(listMemory(sizeOf(entries)), least), freshFor)
}

// renderPage renders a page of a list. Afterwards the request holds the memory of stored and rendered objects.
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

func sizeOf(entries []entry.Entry) (n int) {
	for _, e := range entries {
		n += len(e.Payload)
	}
	return n
}

func (m media) memory(items [][]byte) (n int64) {
	for _, item := range items {
		n += int64(len(item))
	}
	if m == mediaYAML {
		n *= 2 // YAML items are indented into a copy
	}
	return n
}

// stream reads, renders and writes the items of a list page by page, so that only one page is in memory.
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

// count returns the number of objects in the state of the collection that the list shows. It counts the present keys
// and undoes later changes. It fails with history.ErrExpired if objects change during each of three attempts.
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

// renderAll renders entries on all cores. It returns the rendered items and their total size in a protobuf list. needs
// has the memory that each object needs. Objects wait for one another, so that together they never need more memory
// than the request holds.
func (q *request) renderAll(entries []entry.Entry, needs []int64) (items [][]byte, length int, err error) {
	items, errs, cost := make([][]byte, len(entries)), make([]error, len(entries)), sizeOf(entries)
	rendering := max(q.lease.bytes-answerOverhead-int64(cost), 1)
	working := semaphore.NewWeighted(rendering)
	if q.format.media == mediaProtobuf {
		cost /= 16 // for protobuf most bytes are copied, not decoded
	} else {
		cost *= 4 // other formats require that an object is decoded and encoded
	}
	now := time.Now()
	base.Parallel(len(entries), cost, func(i int) {
		need := min(needs[i], rendering)
		_ = working.Acquire(context.Background(), need) // Acquire cannot fail: its context never ends
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

func (q *request) itemLength(e entry.Entry) int {
	item, err := q.collection.item(q.format, e, false, time.Time{})
	if err != nil {
		return 0 // the list fails if its items have another size than announced
	}
	return sizeField(2, len(item))
}

type listWriter struct {
	q     *request
	meta  metav1.ListMeta
	out   io.WriteCloser
	items int
	err   error
}

func (q *request) listWriter(meta metav1.ListMeta) *listWriter { return &listWriter{q: q, meta: meta} }

// begin writes the header and the start of the list, up to its items. length is the total size of the items, which
// precedes them in protobuf.
func (w *listWriter) begin(length int) {
	q := w.q
	apiVersion, kind := q.collection.typeMeta(q.format, q.format.form != table)
	q.w.Header().Set("Content-Type", string(q.format.media))
	w.out = newCompressible(q.w, q.r)
	q.lease.begun = true
	var head []byte
	switch q.format.media {
	case mediaProtobuf:
		meta, err := w.meta.Marshal()
		w.err = err
		head = appendEnvelopeHead(nil, apiVersion, kind, length+sizeField(1, len(meta)))
		head = appendField(head, 1, meta)
	case mediaYAML:
		head = fmt.Appendf(nil, "apiVersion: %s\n%s:", apiVersion, w.itemsName())
	default:
		meta, err := json.Marshal(w.meta)
		// kube-apiserver writes an empty continue token for custom resources.
		if !q.collection.builtIn && q.format.form == whole && w.meta.Continue == "" {
			meta = append([]byte(`{"continue":"",`), meta[1:]...)
		}
		w.err = err
		head = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,`, kind, apiVersion, meta)
		if q.format.form == table {
			columns, err := json.Marshal(q.collection.columns.Definitions())
			if err != nil {
				w.err = err
			}
			head = fmt.Appendf(head, `"columnDefinitions":%s,"rows":`, columns)
		} else {
			head = append(head, `"items":`...)
		}
	}
	w.put(head)
}

func (w *listWriter) put(data []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(data)
	}
}

func (w *listWriter) write(items [][]byte) error {
	var head []byte
	for _, item := range items {
		switch {
		case w.q.format.media == mediaProtobuf:
			head = appendFieldHead(head[:0], 2, len(item))
			w.put(head)
		case w.q.format.media == mediaYAML:
			item = bytes.ReplaceAll(append([]byte("\n- "), bytes.TrimSuffix(item, []byte("\n"))...), []byte("\n"),
				[]byte("\n  "))
			item = append(item[:1], item[3:]...)
		case w.items > 0:
			w.put([]byte{','})
		default:
			w.put([]byte{'['})
		}
		w.put(item)
		w.items++
	}
	return w.err
}

func (w *listWriter) end() error {
	switch w.q.format.media {
	case mediaProtobuf:
		w.put([]byte(envelopeTail))
	case mediaJSON:
		if w.items == 0 && (w.q.format.form == metadata || w.q.format.form == table && w.q.collection.columns.ByDefault()) {
			w.put([]byte("null}\n")) // kube-apiserver writes null for these empty lists
			break
		}
		if w.items == 0 {
			w.put([]byte("["))
		}
		w.put([]byte("]}\n"))
	case mediaYAML:
		tail, err := w.yamlTail()
		if err != nil {
			w.err = err
		}
		w.put(tail)
	}
	if err := w.out.Close(); w.err == nil {
		w.err = err
	}
	return w.failed(w.err)
}

func (w *listWriter) itemsName() string {
	if w.q.format.form == table {
		return "rows"
	}
	return "items"
}

func (w *listWriter) yamlTail() ([]byte, error) {
	_, kind := w.q.collection.typeMeta(w.q.format, w.q.format.form != table)
	rest := map[string]any{"kind": kind, "metadata": w.meta}
	// As in JSON, lists of custom resources have an empty continue token.
	if !w.q.collection.builtIn && w.q.format.form == whole && w.meta.Continue == "" {
		rest["metadata"] = map[string]any{"continue": "", "resourceVersion": w.meta.ResourceVersion}
	}
	if w.q.format.form == table {
		rest["columnDefinitions"] = w.q.collection.columns.Definitions()
	}
	tail, err := yaml.Marshal(rest)
	if w.items == 0 {
		return append([]byte(" []\n"), tail...), err
	}
	return append([]byte("\n"), tail...), err
}

// failed returns err if no part of the response has been written yet. Otherwise it aborts the connection, so that the
// client cannot mistake a partial list for a complete one.
func (w *listWriter) failed(err error) error {
	if err == nil || w == nil || w.out == nil {
		return err
	}
	panic(http.ErrAbortHandler)
}

// listMeta returns the metadata of a Table with only one object: that object's resourceVersion.
func listMeta(e entry.Entry) metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: e.ResourceVersion}
}
