package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/parallel"
	"github.com/larder-dev/larder/store/history"
)

// pageBytes is how much of a list with a limit, or of one whose length must be known first, is gathered in memory.
const pageBytes = 8 << 20

// list answers a list.
func (q *request) list() error {
	l := newListing(q.collection, q.reader, q.path, q.options)
	if err := l.begin(q.ctx); err != nil {
		return err
	}
	limit := int(q.options.Limit)
	if q.options.ResourceVersion == "0" {
		limit = 0 // a watch cache answers, which does not page
	}
	if limit > 0 {
		return q.listPage(l, limit)
	}
	after := ""
	if q.options.token != nil {
		after = q.options.token.after(l.prefix())
	}
	return q.listAll(l, after)
}

// listPage answers with at most limit objects, and fewer if they are large.
func (q *request) listPage(l *listing, limit int) error {
	after, left, counted := "", 0, false
	if t := q.options.token; t != nil {
		after, left, counted = t.after(l.prefix()), t.Left, t.Left > 0
	}
	var found []entry.Entry
	size, more := 0, false
	err := l.pages(q.ctx, after, func(entries []entry.Entry) (bool, error) {
		for _, e := range entries {
			if len(found) == limit || size > pageBytes {
				more = true
				return false, nil
			}
			found, size = append(found, e), size+len(e.Payload)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	meta := metav1.ListMeta{ResourceVersion: l.rv}
	if more {
		t := token{RV: inconsistentRV, Start: startOf(found[len(found)-1].Key, l.prefix())}
		if t.RV, err = strconv.ParseInt(l.rv, 10, 64); err != nil {
			return errNotListed(q.collection.Identity)
		}
		if !counted && q.options.token == nil && !q.options.selective() {
			left, err = q.count(l)
			if counted = err == nil; err != nil && !errors.Is(err, history.ErrExpired) {
				return errRead(err)
			}
		}
		if counted && left > len(found) {
			t.Left = left - len(found)
			remaining := int64(t.Left)
			meta.RemainingItemCount = &remaining
		}
		meta.Continue = t.encode()
	}
	w := q.listWriter(meta)
	items, length, err := q.renderAll(found)
	if err != nil {
		return err
	}
	w.begin(length)
	_ = w.write(items) // end has the error
	return w.end()
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

// renderAll returns the items of entries, made on all cores, and the length that they take in a protobuf list.
func (q *request) renderAll(entries []entry.Entry) (items [][]byte, length int, err error) {
	items, errs, cost := make([][]byte, len(entries)), make([]error, len(entries)), 0
	for _, e := range entries {
		cost += len(e.Payload)
	}
	if q.format.media == mediaProtobuf {
		cost /= 16 // most is copied
	}
	now := time.Now()
	parallel.Each(len(entries), cost, func(i int) {
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

// listAll answers with all objects behind a key.
func (q *request) listAll(l *listing, after string) error {
	if q.format.media == mediaProtobuf {
		return q.listMeasured(l, after)
	}
	var w *listWriter
	l.passing = true
	err := l.pages(q.ctx, after, func(entries []entry.Entry) (bool, error) {
		items, _, err := q.renderAll(entries)
		if err != nil {
			return false, err
		}
		if w == nil {
			w = q.listWriter(metav1.ListMeta{ResourceVersion: l.rv})
			w.begin(0)
		}
		return true, w.write(items)
	})
	if err != nil {
		return w.failed(err)
	}
	return w.end()
}

// listMeasured answers with a list that is preceded by its length. If that is not known, a small list is gathered, and
// a large one is read twice, at the same moment.
func (q *request) listMeasured(l *listing, after string) error {
	all := q.options.token == nil && !q.options.selective()
	var first [][][]byte
	total, length, known := 0, 0, false
	var w *listWriter
	err := l.pages(q.ctx, after, func(entries []entry.Entry) (bool, error) {
		items, n, err := q.renderAll(entries)
		if err != nil {
			return false, err
		}
		if w == nil {
			w = q.listWriter(metav1.ListMeta{ResourceVersion: l.rv})
			if all {
				length, known = q.collection.lengths.of(l, q.format.form, q.itemLength)
			}
			if l.passing = known; known {
				w.begin(length)
			}
		}
		switch total += n; {
		case known:
			return true, w.write(items)
		case total <= pageBytes:
			first = append(first, items)
		default:
			first, l.passing = nil, true
		}
		return true, nil
	})
	switch {
	case err != nil:
		return w.failed(err)
	case known && total != length:
		q.collection.lengths.forget(l, q.format.form)
		return w.failed(fmt.Errorf("a list of %s has %d bytes, and not %d", q.collection.Identity, total, length))
	case known:
		return w.end()
	case all:
		q.collection.lengths.put(l, q.format.form, total)
	}
	w.begin(total)
	if total <= pageBytes {
		for _, items := range first {
			_ = w.write(items) // end has the error
		}
		return w.end()
	}
	err = l.pages(q.ctx, after, func(entries []entry.Entry) (bool, error) {
		items, _, err := q.renderAll(entries)
		if err == nil {
			err = w.write(items)
		}
		return true, err
	})
	if err != nil {
		return w.failed(err)
	}
	return w.end()
}

// itemLength is what an entry takes of a protobuf list.
func (q *request) itemLength(e entry.Entry) int {
	item, err := q.collection.item(q.format, e, false, time.Time{})
	if err != nil {
		return 0 // the list will not have that length, and fail
	}
	return sizeField(2, len(item))
}

// listWriter writes a list piece by piece.
type listWriter struct {
	q     *request
	meta  metav1.ListMeta
	out   io.WriteCloser // nil before begin
	items int
	err   error
}

func (q *request) listWriter(meta metav1.ListMeta) *listWriter { return &listWriter{q: q, meta: meta} }

// begin writes what is before the items, which take length bytes in protobuf.
func (w *listWriter) begin(length int) {
	q := w.q
	apiVersion, kind := q.collection.typeMeta(q.format, q.format.form != table)
	q.w.Header().Set("Content-Type", string(q.format.media))
	w.out = newCompressible(q.w, q.r)
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
		if !q.collection.known && q.format.form == whole && w.meta.Continue == "" { // as kube-apiserver has it
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

// write writes items. An error says that the client has gone.
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
		if w.items == 0 && w.q.format.form == metadata {
			w.put([]byte("null}\n")) // as kube-apiserver has it
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

// itemsName is the field that has the items.
func (w *listWriter) itemsName() string {
	if w.q.format.form == table {
		return "rows"
	}
	return "items"
}

// yamlTail is what follows the items.
func (w *listWriter) yamlTail() ([]byte, error) {
	_, kind := w.q.collection.typeMeta(w.q.format, w.q.format.form != table)
	rest := map[string]any{"kind": kind, "metadata": w.meta}
	if !w.q.collection.known && w.q.format.form == whole && w.meta.Continue == "" { // as in JSON
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

// failed returns the error, if nothing has been written yet. Else it ends the connection: the client must not take
// what it has for the whole.
func (w *listWriter) failed(err error) error {
	if err == nil || w == nil || w.out == nil {
		return err
	}
	panic(http.ErrAbortHandler)
}

// listMeta is the metadata of a Table with one object.
func listMeta(e entry.Entry) metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: e.ResourceVersion}
}
