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
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/store"
)

// SyncPolicy says when HasSynced becomes true.
type SyncPolicy string

// The policies.
const (
	// Resumed: the server has accepted the resume and everything it had then has been applied, or a list has been
	// applied. Never weaker than client-go's HasSynced.
	Resumed SyncPolicy = "Resumed"
	// Disk: the stored state has been loaded. Use it for offline starts. If nothing is stored, the first list has to be
	// applied.
	Disk SyncPolicy = "Disk"
)

// Unversioned is the Options.TransformVersion of a transform that never changes, or whose changes may leave stored
// objects in the form that an older function gave them, until the server changes them.
const Unversioned = "unversioned"

// Options are the options of New. Store (or InMemory) and Identity.Resource are required;
// the zero value of everything else works.
type Options struct {
	// Store is the file that holds the objects.
	Store *store.Store
	// InMemory keeps the objects in memory only; Store may be nil.
	InMemory bool
	// PersistSecrets allows core/v1 Secrets, in any representation, in a Store that does not seal them
	// (store.Options.Encryption): its file then has them in plain text. Otherwise an informer on Secrets keeps them in
	// memory only, and its Status says so. A store that seals Secrets persists them in any case (Status.Sealed).
	PersistSecrets bool

	// Identity says what the ListerWatcher lists: its Namespace, LabelSelector, FieldSelector and ShardSelector must be
	// those of the requests, or incomplete data is served; requests.ListWatch makes a ListerWatcher from it.
	// Representation is derived from the example object and may be left empty.
	Identity entry.Identity
	// Resource is stored for the command line. Default: the kind of the example object, or its Go type's name.
	Resource entry.ResourceInfo
	// Codec encodes the objects. Default: codec.For the example object.
	Codec codec.Codec

	// ClientDecodes leaves decoding to the ListerWatcher. By default, if that is of requests.ListWatch, the informer
	// reads the answers itself: it stores objects as they came, and decodes those that a handler, an index function, a
	// transform or a reader asks for (package reflector/wire). Status.Undecoded says which is the case.
	ClientDecodes bool

	// Residency says which objects are kept decoded in memory: store.All or store.None. Default All, as in
	// client-go.
	Residency store.Residency
	// History keeps the latest changes in memory, up to so many bytes, for those who watch the collection (package serve).
	// Default none.
	History int
	// Compression of the objects in Store. Default none; see store.Zstd for when it pays.
	Compression store.Compression

	// SyncPolicy says when HasSynced becomes true. Default Resumed.
	SyncPolicy SyncPolicy
	// ResyncPeriod is the default resync period of handlers, and the check period. Default 0: no resyncs.
	ResyncPeriod time.Duration
	// Indexers are the initial index functions, and IndexVersions their versions. An index without a version is rebuilt
	// in the background at each start (see store.Interface.AddIndexers); only look-ups in it wait for that.
	Indexers      cache.Indexers
	IndexVersions map[string]string
	// TransformVersion names the function given to SetTransform, and must change whenever the function does: stored
	// objects keep the form that the function gave them until they are listed again, which a new version causes. A
	// transform of objects that are stored in a file needs a version, or Unversioned: without one SetTransform and the run
	// fail.
	TransformVersion string
	// ObjectDescription is for logs. Default: the example object's type.
	ObjectDescription string

	// ClusterID returns the id of the cluster; it is called at every connect. See requests.KubeSystemUID. If it has not
	// returned after 40 s, or panics (with utilruntime.ReallyCrash off), the connection counts as failed and is tried
	// again. Default: not checked.
	ClusterID func(ctx context.Context) (string, error)
	// OpenAPIHash returns the hash of the group-version's schema. It is called at the first connect, then at most once an
	// hour, before a list by metadata, and at the first connect half a minute after one; see requests.OpenAPIHash. A
	// function that reuses an answer for a while, other than requests.Schemas, lets a list by metadata keep bodies of an
	// older schema. It has 40 s. If it fails, Status.Unguarded says why; it is called again at the next connect, or after
	// an hour if the server has answered. Default: not checked.
	OpenAPIHash func(ctx context.Context) (string, error)
	// ServerVersion returns the server's version, such as v1.37.2; see requests.ServerVersion. If it is set, the informer
	// chooses the encoding of unstructured objects at every connect: protobuf if Codec reads it (codec.UnstructuredWith)
	// and the server is not newer than the Go types in this program, otherwise JSON. Status.Encoding says which. It needs
	// a ListerWatcher of requests.ListWatch. Default: the client's configuration decides.
	ServerVersion func(ctx context.Context) (string, error)
	// ListMetadata makes the ListerWatcher's list requests for metadata, with the same scope; see requests.ListMetadata.
	// If the stored objects are large (8 KiB, and four times their metadata, by the first 64) and OpenAPIHash, read on
	// this connection, shows the schema that they were listed with, a list after lost history uses it, and fetches only
	// the objects that have changed; from a page of which more than a quarter have changed on, it lists whole objects.
	// Audits and look-ups use it, and so does a start with the policy Resumed (see HasSynced in the package's
	// documentation). Default: those of a ListerWatcher of requests.ListWatch, and whole objects for others.
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// Seed is what to begin with where nothing has been stored yet, such as a snapshot (snapshot.Seed): then the first
	// list is spared, and the watch resumes from the seed. Everything is listed if there is none that will do, or if the
	// server has compacted its history since; Status.Seed says why. It is opened once the server has told its cluster's id
	// (ClusterID), or at once if SeedCluster is set. Objects that a transform has changed are no seed. Default: none.
	Seed seed.Source
	// SeedCluster is the id of the cluster from which a seed has to be. With it an informer can begin without the server,
	// and with a server whose cluster's id cannot be read. Default: the server's.
	SeedCluster string
	// AuditEvery is the interval of audits by Informer.Audit: each follows after a random half to whole of it. Default 0:
	// no audits.
	AuditEvery time.Duration
	// PageSize is the maximum number of objects in a page of a list, which bounds the memory for a list. A page is
	// smaller at the start, if its objects are large (its target is 16 MiB), or if larger ones do not come over the link;
	// see package reflector. Default 2000.
	PageSize int64

	// RelistSpread: see reflector.Options.RelistSpread. For fleets whose lists together are too much for their API
	// server. Default 0.
	RelistSpread time.Duration

	// Observer is called for commits, handler calls and the informer's life cycle, for metrics. Default: none.
	Observer Observer

	// Logger is the logger of the informer. Default: that of the context given to RunWithContext.
	Logger *logr.Logger
	// Clock is for tests. Default: the real clock.
	Clock clock.WithTicker
}
