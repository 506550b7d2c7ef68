package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// mirror is the informers of a sync, over one file. It is what answers the
// other commands while the sync holds the file. Close of the embedded File closes the store.
type mirror struct {
	*source.File
	store    *store.Store
	learner  *learner      // nil: nothing is learned
	follower *follower     // nil: the members stay as they are
	memory   *serve.Memory // for answers; nil if nothing is served
	// note writes a remark into the log.
	note func(text string)

	mu      sync.Mutex
	members []*member // guarded by mu; the slice is replaced, not modified, once run has been called
	failed  []error   // why members ended before they were told to; guarded by mu
	// missing are the namespaces that the API server does not have; guarded by mu.
	missing map[string]bool
}

// all returns the members.
func (m *mirror) all() []*member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.members
}

// member is one resource that is mirrored.
type member struct {
	resource input.Resource
	identity entry.Identity
	informer *informer.Informer
	conn     *cluster.Connection
	// watchable ends, with why, before the informer does, which waits for the watches' handlers.
	watchable  context.Context
	endWatches context.CancelCauseFunc
	// stop ends the informer before the others; set by run.
	stop     context.CancelFunc
	wanted   cluster.Wanted
	keeps    bool // the file keeps what changes
	optional bool // see source.Live
}

// memberOptions are the same for all members.
type memberOptions struct {
	persistSecrets bool
	// keepChanges is how long the file keeps what changes; 0 is not at all.
	keepChanges time.Duration
	// configured: they come from a file.
	configured bool
	// servesSecrets: clients are to read Secrets.
	servesSecrets bool
	// observer counts for the metrics. Default: nobody does.
	observer informer.Observer
	// history is how many bytes of changes are kept in memory; see informer.Options.
	history int
	// schemas has the server's schemas stored.
	schemas bool
	// learner is told the hashes of schemas; nil if there is none.
	learner *learner
	// seed is what to begin with, of the cluster seedCluster; see informer.Options. May be nil.
	seed        snapshot.Seed
	seedCluster string
}

func newMember(ctx context.Context, st *store.Store, p planned, mo memberOptions) (*member, error) {
	r, id, conn := p.resource, p.identity, p.conn
	o := informer.Options{
		Residency: store.None, Store: st, PersistSecrets: mo.persistSecrets, Identity: id, Resource: r.ResourceInfo,
		ClusterID: conn.ClusterID,
		Observer:  mo.observer, History: mo.history,
	}
	if mo.seed != nil {
		o.Seed, o.SeedCluster = mo.seed, mo.seedCluster
	}
	if id.Representation != entry.Metadata { // which do not depend on it
		o.OpenAPIHash = conn.Schemas.Hash(r.GroupVersion())
		if mo.learner != nil {
			o.OpenAPIHash = mo.learner.hash(r.GroupVersion())
		}
	}
	if id.Representation == entry.Unstructured {
		o.Codec, o.ServerVersion = codec.UnstructuredWith(scheme.Scheme), conn.Version
	}
	inf, err := informer.New(conn.ListWatch(id), exampleOf(p), o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	mb := &member{resource: r, identity: id, informer: inf, conn: conn, wanted: p.wanted, optional: p.optional()}
	mb.watchable, mb.endWatches = context.WithCancelCause(context.Background())
	if err := inf.SetWatchErrorHandlerWithContext(logQuietly); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	kept := keptBefore(ctx, st, id)
	mb.keepChanges(ctx, mo.keepChanges)
	if mo.keepChanges == 0 {
		mb.sayFreed(ctx, st, kept, mo.configured)
	}
	return mb, nil
}

// exampleOf is an object of the kind and in the form of what is mirrored.
func exampleOf(p planned) runtime.Object {
	if p.identity.Representation == entry.Metadata {
		return &metav1.PartialObjectMetadata{}
	}
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(p.resource.GroupVersion().WithKind(p.resource.Kind))
	return example
}

// logQuietly logs what the watch error handler is told. What it hears is in the status, and so in the display;
// client-go's own handler would log it at each attempt.
func logQuietly(ctx context.Context, _ *cache.Reflector, err error) {
	klog.FromContext(ctx).V(2).Info("The connection ended", "err", err)
}

// run mirrors until ctx ends or an informer gives up, which is the error. When it returns
// everything has been stored and nothing is running.
func (m *mirror) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	start := func(mb *member) {
		running, stop := context.WithCancel(ctx)
		mb.stop = stop
		wg.Go(func() { m.runMember(running, cancel, mb) })
		wg.Go(func() { mb.describe(running, m.store) })
	}
	for _, mb := range m.all() {
		start(mb)
	}
	if m.learner != nil {
		wg.Go(func() { m.learner.run(ctx, m.all()) })
		wg.Go(func() { m.watchNamespaces(ctx) })
	}
	if m.follower != nil {
		wg.Go(func() { m.follow(ctx, m.follower, start) })
	}
	<-ctx.Done()
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.failed...)
}

// runMember runs a member until ctx ends. If its informer gives up before that, it ends the others with cancel.
func (m *mirror) runMember(ctx context.Context, cancel context.CancelFunc, mb *member) {
	// The watches end first: to a watch whose informer has ended the collection is one that nobody mirrors.
	informing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ending sync.WaitGroup
	ending.Go(func() {
		<-ctx.Done()
		mb.endWatches(source.ErrStopping)
		stop()
	})
	defer ending.Wait()
	mb.informer.RunWithContext(informing)
	if ctx.Err() == nil {
		m.mu.Lock()
		m.failed = append(m.failed, fmt.Errorf("the mirror of %s stopped: %w", mb.identity,
			errors.Join(mb.informer.Status().Err, errStopped)))
		m.mu.Unlock()
		cancel()
	}
}

// scrub looks for damage that nobody else would meet: a mirror reads little of what it has stored. The informers repair
// it.
func (m *mirror) scrub(ctx context.Context) {
	if err := m.Scrub(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "The store is damaged, and is being repaired")
	}
}

var errStopped = errors.New("its informer ended before it was told to")

// statusWait is how long Status waits for a commit: a disk may hang.
const statusWait = 2 * time.Second

// Status implements source.Source. It commits dirty changes first, as Entries does, so that the resourceVersion that a
// command prints is that of the objects that it prints.
func (m *mirror) Status(ctx context.Context) (source.Status, error) {
	if m.store.Pending() > 0 && m.store.CommitErr() == nil {
		limited, cancel := context.WithTimeout(ctx, statusWait)
		defer cancel()
		_ = m.store.Flush(limited) // the status below has its error
	}
	mirrored := m.mirrored() // before the file is read, so that it has what they say to have synced
	status, err := m.File.Status(ctx)
	if err != nil {
		return status, err
	}
	if m.memory != nil {
		u := m.memory.Usage()
		status.ServeMemory = &source.ServeMemory{Bytes: u.Size, UsedBytes: u.Used, Refused: u.Refused}
	}
	for _, c := range mirrored {
		at := slices.IndexFunc(status.Collections, func(o source.Collection) bool { return o.ID == c.ID })
		switch {
		case at < 0:
			status.Collections = append(status.Collections, c)
		case c.Persistent:
			stored := &status.Collections[at]
			stored.Live = c.Live
			if c.Live.Uncommitted = status.Error != "" && stored.ResourceVersion != c.ResourceVersion; !c.Live.Uncommitted {
				stored.LastContact, stored.Notes = c.LastContact, c.Notes
			}
		default: // what an earlier sync has persisted is older than what is in memory
			status.Collections[at] = c
		}
	}
	source.Sort(status.Collections)
	m.SetMeanings(ctx, status.Collections)
	return status, nil
}

// notes returns the known defects of a collection.
func (m *mirror) notes(info entry.Info) []entry.Note {
	for _, mb := range m.all() {
		if mb.identity == info.Identity {
			return mb.informer.Status().Notes
		}
	}
	return info.Notes(time.Now(), false)
}

// mirrored is Status for what this sync mirrors only, in the order of the arguments.
func (m *mirror) mirrored() []source.Collection {
	var all []source.Collection
	for _, mb := range m.all() {
		c := mb.collection()
		m.mu.Lock()
		c.Live.NoNamespace = c.Objects == 0 && m.missing[c.Namespace]
		m.mu.Unlock()
		all = append(all, c)
	}
	return all
}

// Entries implements source.Source.
func (m *mirror) Entries(ctx context.Context, q source.Query, fn func(entry.Entry) error) error {
	for _, mb := range m.all() {
		if mb.identity.ID() == q.Collection && !mb.informer.Status().Persistent {
			return source.Entries(ctx, mb.informer.Reader(), q, fn)
		}
	}
	return m.File.Entries(ctx, q, fn)
}

// Save implements source.Holder: what is in memory only is named as left out.
func (m *mirror) Save(ctx context.Context, w io.Writer, r source.SaveRequest) error {
	infos, err := m.store.Collections(ctx)
	if err != nil {
		return err
	}
	for _, c := range input.InMemory(m.mirrored(), r.Filter) {
		why := "larder sync had them in memory only"
		if slices.ContainsFunc(infos, func(i entry.Info) bool { return i.Identity == c.Identity() && i.Complete }) {
			why += "; those that an earlier one has stored are older"
		}
		r.LeftOut = append(r.LeftOut, c.Identity().String()+": "+why)
	}
	return m.File.Save(ctx, w, r)
}

// collection describes the member as its informer sees it.
func (mb *member) collection() source.Collection {
	st := mb.informer.Status()
	c := source.NewCollection(entry.Info{
		Identity: mb.identity, Resource: mb.resource.ResourceInfo, ResourceVersion: st.ResourceVersion,
		Objects: st.Objects, LastContact: st.LastContact, Complete: st.Source != informer.None,
	})
	c.Persistent = st.Persistent
	c.Notes = slices.DeleteFunc(st.Notes, func(n entry.Note) bool { return n.Kind == entry.NoteAge })
	live := source.Live{
		Encoding: cmp.Or(st.Encoding, "JSON"), Optional: mb.optional, ListOnly: st.Reflector.ListOnly,
		Source: string(st.Source), Since: st.SourceSince, Synced: st.Synced, State: string(st.Reflector.State),
		Resumes: st.Reflector.Resumes, Lists: st.Reflector.Lists, Pages: st.Reflector.Pages, Watches: st.Reflector.Watches,
		Relists: map[string]int{}, BytesReceived: mb.conn.Bodies.Bytes(),
		Pending: st.Pending, Skipped: st.Skipped, Rewriting: string(st.Rewriting), Unguarded: st.Unguarded,
		IncidentTotals: map[string]int{}, Seed: seeded(st.Seed),
	}
	for cause, n := range st.Incidents {
		live.IncidentTotals[string(cause)] = n
	}
	for reason, n := range st.Reflector.Relists {
		live.Relists[string(reason)] = n
	}
	if st.Err != nil {
		live.Error, live.Trouble = mb.explained(st.Err).Error(), troubleOf(st.Err)
		if apierrors.IsForbidden(st.Err) && st.Source != informer.Live && !live.ListOnly {
			live.Forbidden = canI(mb.identity)
		}
	}
	c.Live = &live
	return c
}
