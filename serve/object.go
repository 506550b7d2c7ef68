package serve

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/store"
)

func (q *request) get() error {
	key := q.path.prefix()
	if q.r.URL.Query().Get("export") == "1" {
		return apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	if rv, err := parseRV(q.r.URL.Query().Get("resourceVersion")); err != nil {
		return err
	} else if rv > 0 {
		if err := awaitRV(q.ctx, q.collection, q.reader, rv); err != nil {
			return err
		}
	}
	p, needs, err := q.holdObject(key)
	switch {
	case err != nil:
		return err
	case !p.Info.Complete:
		return errNotListed(q.collection.Identity)
	case len(p.Entries) == 0 || p.Entries[0].Key != key:
		if !q.collection.covers(q.path, q.options) {
			return q.tooWide(&kind{GroupVersionResource: q.path.GroupVersionResource}, q.collection.scope(), "")
		}
		return apierrors.NewNotFound(q.path.GroupResource(), q.path.name)
	}
	if err := q.format.includes(q.r.URL.Query().Get("includeObject")); err != nil {
		return err
	}
	if q.format.form == table {
		w := q.listWriter(listMeta(p.Entries[0]))
		items, _, err := q.renderAll(p.Entries, needs)
		if err == nil {
			err = q.holdBody(items[0])
		}
		if err != nil {
			return err
		}
		w.begin(0)
		_ = w.write(items)
		return w.end()
	}
	body, err := q.collection.item(q.format, p.Entries[0], true, time.Now())
	if err != nil {
		return errRead(err)
	}
	if err := q.holdBody(body); err != nil {
		return err
	}
	if q.format.media == mediaJSON {
		body = append(body, '\n')
	}
	q.w.Header().Set("Content-Type", string(q.format.media))
	out := newCompressible(q.w, q.r)
	_, _ = out.Write(body)
	_ = out.Close()
	return nil
}

// holdObject reads one object after it has acquired the memory for rendering it. The page p contains only that object,
// or nothing. While the request waits for the memory of a large object it drops the object, and reads it again
// afterwards.
func (q *request) holdObject(key string) (p store.Page, needs []int64, err error) {
	for need := int64(0); ; {
		if err := q.lease.resize(q.ctx, objectMemory+need, memoryWait); err != nil {
			return p, nil, err
		}
		if p, err = q.reader.Page(q.ctx, store.PageOptions{Prefix: key, Limit: 1}); err != nil {
			return p, nil, errRead(err)
		}
		if len(p.Entries) == 0 {
			return p, nil, nil
		}
		needs = []int64{q.collection.renderer.memory(q.format, p.Entries[0])}
		more := needs[0] + int64(len(p.Entries[0].Payload))
		if more <= max(need, renderedFree) {
			return p, needs, nil
		}
		p, need = store.Page{}, more
	}
}

// holdBody acquires the memory of an encoded object twice, since the body is copied before it is compressed.
func (q *request) holdBody(body []byte) error {
	return q.lease.resize(q.ctx, bodyMemory+2*int64(len(body)), memoryWait)
}
