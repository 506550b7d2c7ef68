package subject

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// NamespaceIndex is the index that every informer of a client-go factory has.
const NamespaceIndex = cache.NamespaceIndex

// IndexVersions gives NamespaceIndex a version, so that Larder does not rebuild the index at a restart.
func IndexVersions() map[string]string { return map[string]string{NamespaceIndex: "1"} }

// seldomBytes is the value of store.Options.CommitBytes when a Spec sets a CommitInterval. It is so large that only the
// interval causes commits.
const seldomBytes = 32 << 20

func (r *Running) makeLarder(c *client, o Options, example runtime.Object) (err error) {
	discard := logr.Discard()
	so := store.Options{Logger: &discard}
	if so.CommitInterval = o.Spec.CommitInterval; so.CommitInterval > 0 {
		so.CommitBytes = seldomBytes
	}
	if r.Store, err = store.Open(o.File, so); err != nil {
		return err
	}
	id := entry.Identity{GroupVersionResource: o.Kind.GVR}
	r.Larder, err = informer.New(c.listWatch(id), example, informer.Options{
		Store:         r.Store,
		Identity:      id,
		Residency:     residencies[o.Spec.Residency],
		SyncPolicy:    o.Spec.Policy,
		Indexers:      cache.Indexers{NamespaceIndex: cache.MetaNamespaceIndexFunc},
		IndexVersions: IndexVersions(),
		ClusterID:     requests.KubeSystemUID(c.rest),
		OpenAPIHash:   requests.OpenAPIHash(c.rest, o.Kind.GVR.GroupVersion()),
		Seed:          o.Seed,
		Observer:      r.commits,
		// The transform is the same in all runs of this program, so its version is constant.
		TransformVersion: map[bool]string{true: "strip"}[o.Spec.Strip],
		Logger:           &discard,
	})
	if err == nil {
		r.Informer = r.Larder
	}
	return err
}

// commits is an informer.Observer that keeps the duration of the last commit.
type commits struct {
	took atomic.Int64
	made chan struct{}
}

var _ informer.Observer = &commits{}

func (c *commits) Committed(_ *informer.Informer, done informer.Commit) {
	if done.Err == nil {
		c.took.Store(int64(done.Took))
	}
	select {
	case c.made <- struct{}{}:
	default:
	}
}

func (*commits) InformerMade(*informer.Informer)                         {}
func (*commits) InformerEnded(*informer.Informer)                        {}
func (*commits) HandlerCalled(*informer.Informer, string, time.Duration) {}

// AwaitCommit waits until Larder has no dirty changes, and returns the duration of the last commit. It does not cause a
// commit.
func (r *Running) AwaitCommit(ctx context.Context) (took time.Duration, err error) {
	for r.Store.Pending() > 0 {
		select {
		case <-r.commits.made:
		case <-ctx.Done():
			return 0, fmt.Errorf("%d bytes are pending: %w", r.Store.Pending(), ctx.Err())
		}
	}
	return time.Duration(r.commits.took.Load()), nil
}
