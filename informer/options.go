package informer

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// SyncPolicy says when HasSynced becomes true.
type SyncPolicy string

// The policies.
const (
	// Resumed: the server has accepted the resume and everything it had then
	// has been applied, or a list has been. Never weaker than client-go's.
	Resumed SyncPolicy = "Resumed"
	// Disk: the stored state has been loaded; the choice for offline starts. With nothing
	// stored it waits for the first list.
	Disk SyncPolicy = "Disk"
)

// Options are the options of New. Store (or InMemory) and Identity.Resource are required;
// the zero value of everything else works.
type Options struct {
	// Store is the file that the objects live in.
	Store *store.Store
	// InMemory keeps the objects in memory only; Store may be nil.
	InMemory bool
	// PersistSecrets allows core/v1 Secrets, in whatever representation, in a Store that does not seal them
	// (store.Options.Encryption): they are legible in its file then. Without it an informer on Secrets is in memory only,
	// and its Status says so. Where the store seals them they are persisted in any case, and Status.Sealed says so.
	PersistSecrets bool

	// Identity says what the ListerWatcher lists: its Namespace, LabelSelector, FieldSelector and ShardSelector must be
	// those of the requests, or incomplete data is served; requests.ListWatch makes a ListerWatcher from it.
	// Representation is derived from the example object and may be left empty.
	Identity entry.Identity
	// Resource is stored for the command line. Default: the kind of the example object, or its Go type's name.
	Resource entry.ResourceInfo
	// Codec of the objects. Default: codec.For the example object.
	Codec codec.Codec

	// Residency says which objects are kept decoded in memory: store.All, store.Bounded or store.None. Default All, as in
	// client-go.
	Residency store.Residency
	// Compression of the objects in Store. Default none; see store.Zstd for when it pays.
	Compression store.Compression

	// SyncPolicy says when HasSynced becomes true. Default Resumed.
	SyncPolicy SyncPolicy
	// ResyncPeriod is the default of handlers, and the check period. Default 0: no resyncs.
	ResyncPeriod time.Duration
	// Indexers to start with, and versions of theirs: an index without a version is built anew in the background at each
	// start (see store.Interface.AddIndexers).
	Indexers      cache.Indexers
	IndexVersions map[string]string
	// TransformVersion is to be changed whenever the function given to SetTransform changes.
	TransformVersion string
	// ObjectDescription is for logs. Default: the example object's type.
	ObjectDescription string

	// ClusterID reads the id of the cluster at every connect; see requests.KubeSystemUID. It has 40 s: if it has not
	// returned then, or panics (with utilruntime.ReallyCrash off), the connection has failed and is tried again. Default:
	// not checked.
	ClusterID func(ctx context.Context) (string, error)
	// OpenAPIHash reads the hash of the group-version's schema, at the first connect and then at most once an hour; see
	// requests.OpenAPIHash. It has 40 s; if it fails otherwise than by an answer of the server, it is tried again at the
	// next connect, and Status.Unguarded says why. Default: not checked.
	OpenAPIHash func(ctx context.Context) (string, error)
	// ListMetadata lists by metadata what the ListerWatcher lists, with the same scope; see requests.ListMetadata.
	// Where the stored objects are large (8 KiB, and four times their metadata, by the first 64) a list after lost history
	// then asks for that first, and fetches only the bodies of those objects that have changed; or page after page, from
	// where they are more than a quarter. Audits compare by it, look-ups use it, and so does a start with the policy
	// Resumed (see HasSynced in the package's documentation). Default: whole objects.
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// Lookup: see reflector.Options.Lookup.
	Lookup func(ctx context.Context, key string) (entry.ObjectRef, bool, error)
	// AuditEvery has all objects compared with the server's by Informer.Audit, each time after a random half to whole of
	// it. Default 0: never.
	AuditEvery time.Duration
	// PageSize is how many objects a page of a list has at most, and what is held of one at a time. A page is smaller at
	// the start, if its objects are large (it aims at 16 MiB), or if larger ones do not come over the link; package
	// reflector says how. Default 2000.
	PageSize int64

	// RelistSpread: see reflector.Options.RelistSpread. For fleets whose lists together are too much for their API server.
	// Default 0.
	RelistSpread time.Duration

	// Observer is told what happens, for metrics. Default: none.
	Observer Observer

	// Logger. Default: that of the context given to RunWithContext.
	Logger *logr.Logger
	// Clock is for tests.
	Clock clock.WithTicker
}
