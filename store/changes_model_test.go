package store_test

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// sinceModel is a reader in the model test that follows a collection by View.Changes. It lists all objects if the
// changes since its last read are no longer kept.
type sinceModel struct {
	objects map[string]string // UID and resourceVersion (uid@rv) of each object, by key; nil before the first list
	seq     uint64
	// damaged is true after the file was damaged: Changes may then report rewritten objects as created.
	damaged bool
}

func (r *sinceModel) read(m *changelogModel) {
	m.Helper()
	ctx := context.Background()
	v, err := m.s.ViewWith(ctx, m.c.Identity(), storetest.PodCodec())
	m.must("view", err)
	if r.objects == nil {
		r.list(m, v)
	}
	for more := true; more; {
		p, err := v.Changes(ctx, r.seq)
		var gone *consumer.SinceError
		if errors.As(err, &gone) {
			r.list(m, v)
			continue
		}
		m.must("changes", err)
		for _, c := range p.Changes {
			r.take(m, c)
		}
		r.seq, more = p.End, p.More
	}
}

func (r *sinceModel) list(m *changelogModel, v *store.View) {
	ctx := context.Background()
	k, err := v.Kept(ctx)
	m.must("kept", err)
	r.objects, r.seq = map[string]string{}, k.Last
	m.must("list", v.Iterate(ctx, "", func(key string, obj runtime.Object) error {
		o, err := meta.Accessor(obj)
		r.objects[key] = string(o.GetUID()) + "@" + o.GetResourceVersion()
		return err
	}))
}

func (r *sinceModel) take(m *changelogModel, c consumer.Change) {
	_, there := r.objects[c.Key]
	switch {
	case c.Type == entry.Delete:
		delete(r.objects, c.Key)
	case c.Created > r.seq && there && !r.damaged:
		m.Fatalf("%s was created at %d, and it was there at %d", c.Key, c.Created, r.seq)
	case c.Created <= r.seq && !there && !r.damaged:
		m.Fatalf("%s was not there at %d, and is told as created at %d", c.Key, r.seq, c.Created)
	default:
		r.objects[c.Key] = c.UID + "@" + c.ResourceVersion
	}
}
