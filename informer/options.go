package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// SyncPolicy says when HasSynced becomes true.
type SyncPolicy string

// The policies.
const (
	// Resumed: the server has accepted the resumed watch, and everything that it had then has been stored and queued
	// for the handlers. A list that was stored and queued serves as well. Never weaker than client-go's HasSynced.
	//
	// With Options.ListMetadata a start compares up to 10,000 stored objects with the server's metadata. It then waits
	// for the events of the objects that differ, not for a bookmark, and needs two requests. With more objects a start
	// needs at most seven requests, and about a second for the bookmark. After a lost connection up to 100 objects are
	// compared in this way.
	Resumed SyncPolicy = "Resumed"
	// Disk: the handlers have the first page of the stored objects. Use it for offline starts. If no list was ever
	// complete, HasSynced waits for one.
	Disk SyncPolicy = "Disk"
)

// Unversioned is the Options.TransformVersion of a transform that never changes, or whose changes need not reach
// stored objects: they keep the old function's form until the server changes them.
const Unversioned = "unversioned"

// Options are the options of New. Only Store (or InMemory) and Identity.Resource are required.
type Options struct {
	// Store is the file that holds the objects.
	Store *store.Store
	// InMemory keeps the objects in memory only; Store may be nil.
	InMemory bool
	// PersistSecrets allows core/v1 Secrets, in any representation, in a Store that does not seal them
	// (store.Options.Encryption): the file then holds them in plain text. Without it an informer on Secrets keeps them
	// in memory only, and Status.NotPersistent says so. A store that seals Secrets persists them in any case
	// (Status.Sealed).
	PersistSecrets bool

	// Identity describes the objects that the ListerWatcher lists. Its Namespace, LabelSelector, FieldSelector and
	// ShardSelector must equal those of the requests; otherwise the informer serves incomplete data. requests.ListWatch
	// makes a ListerWatcher from it. requests.ClientListWatch adds the selectors to a client's requests; the namespace is
	// the client's. Representation is derived from the example object and may be empty.
	//
	// The informer does not store objects outside the namespace, without the labels, or of another type than the example.
	// It counts them in Status.Reflector.Skipped, and Status.Err reports them until a list has none. Until then no new
	// resourceVersion is stored, and the next start lists. A list of only these objects is discarded and retried, and the
	// stored objects stay. A wrong field selector is not noticed. A wrong shard selector is noticed only if a list is long
	// enough that some objects should be of this shard, and none is.
	Identity entry.Identity
	// Resource is stored for the command line. Default: the kind of the example object, or its Go type's name.
	Resource entry.ResourceInfo
	// Codec encodes the objects. Default: codec.For the example object.
	Codec codec.Codec

	// ClientDecodes leaves decoding to the ListerWatcher. By default the informer reads the answers of a
	// requests.ListWatch itself: it stores objects as the server sends them, and decodes only objects that a handler, an
	// index function, a transform or a reader needs (package reflector/wire). The factories and the adapter for
	// controller-runtime have ListerWatchers of that kind where they can. Status.Undecoded reports the result.
	ClientDecodes bool

	// Residency says which objects are kept decoded in memory: store.All or store.None. Default All, as in client-go.
	Residency store.Residency
	// History is how many bytes of changes are kept in memory for watches of the collection (package serve). Default none.
	History int
	// Compression is the compression of the objects in Store. Default none; store.Zstd says when it pays.
	Compression store.Compression

	// SyncPolicy says when HasSynced becomes true. Default Resumed.
	SyncPolicy SyncPolicy
	// ResyncPeriod is the default resync period of handlers, and the check period. Default 0: no resyncs.
	ResyncPeriod time.Duration
	// Indexers are the initial index functions, and IndexVersions their versions. An index without a version is rebuilt
	// in the background at each start (see store.Interface.AddIndexers); only look-ups in it wait for the rebuild.
	Indexers      cache.Indexers
	IndexVersions map[string]string
	// TransformVersion names the version of the function given to SetTransform, and must change whenever the function
	// does: a new version causes a list, which replaces the objects that the old function has transformed. A transform
	// of objects in a file needs a version, or Unversioned: without it SetTransform and the run fail.
	TransformVersion string
	// ObjectDescription names the objects in the log. Default: the example object's type.
	ObjectDescription string

	// ClusterID returns the id of the cluster; it is called at every connect. See requests.KubeSystemUID. It detects
	// another cluster at the same address, whose objects then replace the stored ones. If it takes more than 40 s, or
	// panics (with utilruntime.ReallyCrash off), the connection counts as failed and is retried. While five calls have not
	// returned, it is not called again. These limits hold for OpenAPIHash too.
	//
	// If another informer on the same store runs with another cluster, Status.Err, the log and the watch error handler
	// have store.ErrOtherCluster, and this informer waits for the end of the other one. Default: not checked.
	ClusterID func(ctx context.Context) (string, error)
	// OpenAPIHash returns the hash of the group-version's schema; see requests.OpenAPIHash, and requests.NewSchemas,
	// which reads the hashes once for all informers. It is called at the first connect, then at most once an hour,
	// before a list by metadata, and at the first connect half a minute after such a list. If the function caches its
	// answer (as other implementations than requests.Schemas may), a list by metadata may keep objects in the form of
	// an older schema. A call may take 40 s. If it fails, Status.Unguarded says why, and it is called again at the next
	// connect, or after an hour if the server has answered. Default: not checked.
	OpenAPIHash func(ctx context.Context) (string, error)
	// ServerVersion returns the server's version, such as v1.37.2; see requests.ServerVersion. If it is set, the
	// informer chooses the encoding of unstructured objects at every connect: protobuf if Codec can read it
	// (codec.UnstructuredWith) and the server is not newer than the program's Go types, otherwise JSON. Status.Encoding
	// reports the choice. It needs a ListerWatcher of requests.ListWatch. Default: the client's configuration decides.
	ServerVersion func(ctx context.Context) (string, error)
	// ListMetadata makes the ListerWatcher's list requests for metadata, with the same scope; see requests.ListMetadata.
	// Audits, look-ups, and a start with the policy Resumed use it. A list after lost history uses it, and fetches only
	// changed objects, on two conditions. By the first 64 stored objects, the mean size must be at least 8 KiB and four
	// times the metadata. And OpenAPIHash, read on this connection, must equal the hash of the last list. From the first
	// page with more than a quarter of changed objects on, whole objects are listed. Default: the requests of a
	// ListerWatcher of requests.ListWatch; with others, whole objects.
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// Seed provides the initial contents, such as a snapshot (snapshot.Seed), if nothing is stored yet. The seed
	// replaces the first list, and the watch resumes from it. With SyncPolicy Disk the informer has synced then.
	// Everything is listed if no seed is usable, or if the server has compacted the history since; Status.Seed says
	// why. The seed is opened once the server's cluster id is known (ClusterID), or immediately if SeedCluster is set.
	// Objects that a transform has changed cannot be a seed. Default: none.
	Seed seed.Source
	// SeedCluster is the cluster id that a seed must have. With it an informer can begin without the server, or with a
	// server whose cluster id cannot be read. Default: the id that the server reports.
	SeedCluster string
	// AuditEvery is the maximum time between audits by Informer.Audit; the actual time is random, from half of it to all
	// of it. An audit does not notice a content that changes while the resourceVersion stays, such as a new default of a
	// CRD; OpenAPIHash does. Default 0: no audits.
	AuditEvery time.Duration
	// PageSize is the maximum number of objects in a page of a list, which bounds the list's memory: while one page is
	// transformed and stored the next is fetched, and no other is held. Pages are smaller at the start, for large
	// objects (the target is 16 MiB), and on a slow link; see package reflector. Readers see the result of a repeated
	// list at its end, in one step, unless the differences are larger than package store holds in memory. Default 2000.
	PageSize int64

	// RelistSpread is the maximum random wait before a list that lost history (410 Gone) requires, for fleets whose
	// simultaneous lists overload their API server: see reflector.Options. Default 0: lists begin at once.
	RelistSpread time.Duration

	// Observer is called for commits, handler calls and the informer's life cycle, for metrics. Default: none.
	Observer Observer

	// Logger is the logger of the informer. Default: the logger of RunWithContext's context.
	Logger *logr.Logger
	// Clock is for tests. Default: the real clock.
	Clock clock.WithTicker
}

// openWait bounds how long New waits for a previous informer: its reflector may take reflector.MaxStop to end, and its
// last write follows.
const openWait = reflector.MaxStop + 15*time.Second

// The values of Status.NotPersistent, which end users read too. store.Options.Encryption or Options.PersistSecrets
// makes Secrets persistent.
const (
	whyInMemory = "Options.InMemory is set"
	whySecrets  = "Secrets are kept in memory only: the store has no keys to seal them with, " +
		"and they are not to be stored without"
)

func (o Options) withDefaults(example runtime.Object) (Options, error) {
	if o.SyncPolicy == "" {
		o.SyncPolicy = Resumed
	}
	if o.Identity.Representation == "" {
		o.Identity.Representation = representationOf(example)
	}
	if o.ObjectDescription == "" {
		o.ObjectDescription = fmt.Sprintf("%T", example)
		if gvk := example.GetObjectKind().GroupVersionKind(); o.Identity.Representation != entry.Typed && !gvk.Empty() {
			o.ObjectDescription = gvk.String()
		}
	}
	if o.Resource.Kind == "" {
		o.Resource.Kind = kindOfExample(example)
		o.Resource.Singular = strings.ToLower(o.Resource.Kind)
		o.Resource.Namespaced = o.Identity.Namespace != "" // the store derives Namespaced from the keys if it is false
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Codec == nil {
		var err error
		if o.Codec, err = codec.For(example); err != nil {
			return o, err
		}
	}
	return o, o.validate()
}

// kindOfExample returns the kind in the example object's type meta. For a typed object without one it returns the name
// of its Go type, which is the kind by convention.
func kindOfExample(example runtime.Object) string {
	if kind := example.GetObjectKind().GroupVersionKind().Kind; kind != "" || representationOf(example) != entry.Typed {
		return kind
	}
	t := reflect.TypeOf(example)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

func representationOf(example runtime.Object) entry.Representation {
	switch example.(type) {
	case runtime.Unstructured:
		return entry.Unstructured
	case *metav1.PartialObjectMetadata:
		return entry.Metadata
	}
	return entry.Typed
}

func (o Options) validate() error {
	if o.SyncPolicy != Resumed && o.SyncPolicy != Disk {
		return fmt.Errorf("Options.SyncPolicy %q is neither Resumed nor Disk", o.SyncPolicy)
	}
	if o.PageSize < 0 || o.ResyncPeriod < 0 || o.AuditEvery < 0 {
		return fmt.Errorf("Options.PageSize %d, ResyncPeriod %v and AuditEvery %v must not be negative; 0 is the default",
			o.PageSize, o.ResyncPeriod, o.AuditEvery)
	}
	return nil
}

// open decides whether the objects are stored in the file or in memory, and opens the collection.
func (i *sharedInformer) open(ctx context.Context) error {
	o := &i.o
	i.attrs = entry.Attributes{Codec: o.Codec.Name(), Schema: o.Codec.Fingerprint(), Transform: o.TransformVersion}
	co := store.CollectionOptions{
		Codec: o.Codec, Indexers: o.Indexers, IndexVersions: o.IndexVersions, Resource: o.Resource,
		Residency: o.Residency, Compression: o.Compression, Closing: i.closing, Holder: i, Decodes: i.decodesAtOnce,
		History: o.History, Committed: i.notifyCommit,
	}
	secret := holdsSecrets(o.Identity, i.example)
	co.Seal = secret && o.Store != nil && o.Store.Seals(secrets)
	switch {
	case o.InMemory:
		i.memoryOnly = whyInMemory
	case secret && !co.Seal && !o.PersistSecrets:
		i.memoryOnly = whySecrets
	case o.Store == nil:
		return errors.New("no store to keep the objects in; set Options.Store or Options.InMemory")
	case o.Store.ReadOnly():
		return fmt.Errorf("keep the objects in %s: %w; open it for writing", o.Store.Path(), store.ErrReadOnly)
	}
	if i.memoryOnly != "" {
		m, err := memory.New(o.Identity, co)
		if err != nil {
			return err
		}
		i.store, i.indexer = m, m.Indexer()
		i.complete()
		return nil
	}
	c, err := o.Store.Collection(ctx, o.Identity, co)
	if err != nil {
		return err
	}
	i.store, i.indexer, i.file, i.collection = c, c.Indexer(), o.Store, c
	i.indexer.BeforeRead(i.logUnstarted(i.clock.Now()))
	i.complete()
	return nil
}

func (i *sharedInformer) complete() {
	i.source, i.undecoded = i.listed()
	i.distribution = newDistribution(i)
	i.auditor = i.newAuditor()
}

// unstartedGrace is how long an informer may be read before its start without a warning.
const unstartedGrace = 10 * time.Second

// logUnstarted returns a function that is called at reads before the start. It logs once that the informer was not
// started. Without that line its readers could take the objects of an earlier run for the cluster's present state.
func (i *sharedInformer) logUnstarted(made time.Time) func() {
	return func() {
		if i.clock.Since(made) < unstartedGrace {
			return
		}
		i.indexer.BeforeRead(nil)
		i.unstarted.Do(func() {
			i.o.logger(context.Background()).Info("An informer is read that was not started: its reader gets the objects of an "+
				"earlier run. Start it, or its factory after the informers have been made", "type", i.o.ObjectDescription)
		})
	}
}

// secrets is the resource that a store with encryption keys seals by default.
var secrets = schema.GroupResource{Resource: "secrets"}

// holdsSecrets reports, by the identity's resource or the example's type, whether the objects are core Secrets.
func holdsSecrets(id entry.Identity, example runtime.Object) bool {
	if id.Group == "" && strings.EqualFold(id.Resource, "secrets") {
		return true
	}
	if _, ok := example.(*corev1.Secret); ok {
		return true
	}
	gvk := example.GetObjectKind().GroupVersionKind()
	return gvk.Group == "" && gvk.Kind == "Secret"
}
