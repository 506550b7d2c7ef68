package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
)

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
