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
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// mirror is the set of informers of a sync, which share one store file. It answers the requests of other commands while
// the sync holds the file. The embedded File's Close closes the store.
type mirror struct {
	*source.File
	store   *store.Store
	learner *learner // learner stores facts about the server, such as its schemas; nil disables that
	// follower starts and ends informers when the server's resources change; nil keeps the first informers.
	follower *follower
	memory   *serve.Memory // memory is the budget for responses of the served API; nil if nothing is served
	// note logs a message that is not an error.
	note func(text string)

	mu sync.Mutex
	// members are the mirrored collections; mu guards the field. After the call of run the slice is replaced, never
	// modified.
	members []*member
	failed  []error // failed has the errors of informers that gave up; mu guards it
	// missing holds the mirrored namespaces that do not exist on the API server; mu guards it.
	missing map[string]bool
}

func (m *mirror) all() []*member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.members
}

// member is one mirrored collection with its informer and its connection to the server.
type member struct {
	resource input.Resource
	identity entry.Identity
	informer *informer.Informer
	conn     *cluster.Connection
	// watchable is the context of the watches of this collection. It ends, with a cause, before the informer does, because
	// the informer waits until its watches' handlers have returned.
	watchable  context.Context
	endWatches context.CancelCauseFunc
	// stop stops the informer of this collection and no other; run sets it.
	stop     context.CancelFunc
	wanted   cluster.Wanted
	keeps    bool // keeps says that the file keeps a changelog of the collection
	optional bool // optional says that a category or --all requested the resource, not its own name; see source.Live
}

type memberOptions struct {
	persistSecrets bool
	// keepChanges is how long the file keeps changes in the changelog; 0 keeps none.
	keepChanges time.Duration
	// configured says that the options come from a configuration file and not from flags.
	configured bool
	// servesSecrets says that clients of the served API may read Secrets.
	servesSecrets bool
	observer      informer.Observer
	// history is the size in bytes of the changes that each informer keeps in memory for watches; see informer.Options.
	history int
	schemas bool
	// learner receives the hashes of OpenAPI schemas; nil without a learner.
	learner *learner
	// seed is a snapshot from which new collections are filled, or nil. seedCluster is the required cluster of the seed.
	// See informer.Options.
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
	if id.Representation != entry.Metadata {
		// Metadata of objects does not depend on the schema, so its hash is not needed.
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
		mb.logFreed(ctx, st, kept, mo.configured)
	}
	return mb, nil
}

// exampleOf returns an empty object of the Go type and kind that the informer of the collection stores.
func exampleOf(p planned) runtime.Object {
	if p.identity.Representation == entry.Metadata {
		return &metav1.PartialObjectMetadata{}
	}
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(p.resource.GroupVersion().WithKind(p.resource.Kind))
	return example
}

// logQuietly is the watch error handler of the informers. It logs at a high verbosity, because client-go's default
// handler would log every attempt and the status shows the error.
func logQuietly(ctx context.Context, _ *cache.Reflector, err error) {
	klog.FromContext(ctx).V(2).Info("The connection ended", "err", err)
}

// run mirrors until ctx ends or an informer gives up, and returns the error of that informer. When run returns, all
// changes are committed and all its goroutines have ended.
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

// runMember runs the informer of one collection until ctx ends. If the informer gives up first, runMember ends all
// other informers by calling cancel.
func (m *mirror) runMember(ctx context.Context, cancel context.CancelFunc, mb *member) {
	// The watches must end before the informer: otherwise a watch would report that no sync mirrors the collection.
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

// scrub verifies stored data in the background, because a mirror reads little of the file and would not find damage.
// A list replaces damaged records; other damage ends the informers.
func (m *mirror) scrub(ctx context.Context) {
	if err := m.Scrub(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "The store is damaged: damaged records are listed again; after other "+
			"damage the next start repairs the file")
	}
}

var errStopped = errors.New("its informer ended before it was told to")

// statusWait limits how long a status request waits for the commit of dirty changes, because the disk may hang.
const statusWait = 2 * time.Second

// Status implements source.Source. Like Entries, it first commits dirty changes, so that the resourceVersion in the
// status is that of the objects that the command prints.
func (m *mirror) Status(ctx context.Context) (source.Status, error) {
	if m.store.Pending() > 0 && m.store.CommitErr() == nil {
		limited, cancel := context.WithTimeout(ctx, statusWait)
		defer cancel()
		_ = m.store.Flush(limited) // the status reports the error of a failed commit
	}
	// The mirrored collections are read before the status of the file, so that the file holds every list that the returned
	// status reports as synced.
	mirrored := m.mirrored()
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
		default: // an earlier sync stored objects of this in-memory collection, which are older than those in memory
			status.Collections[at] = c
		}
	}
	source.Sort(status.Collections)
	m.SetMeanings(ctx, status.Collections)
	return status, nil
}

func (m *mirror) notes(info entry.Info) []entry.Note {
	for _, mb := range m.all() {
		if mb.identity == info.Identity {
			return mb.informer.Status().Notes
		}
	}
	return info.Notes(time.Now(), false)
}

// mirrored returns the status of the mirrored collections, in the order of the arguments.
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

func (m *mirror) Entries(ctx context.Context, q source.Query, fn func(entry.Entry) error) error {
	for _, mb := range m.all() {
		if mb.identity.ID() == q.Collection && !mb.informer.Status().Persistent {
			return source.Entries(ctx, mb.informer.Reader(), q, fn)
		}
	}
	return m.File.Entries(ctx, q, fn)
}

// Save implements source.Holder. Collections that are only in memory are listed as left out.
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
		live.Error, live.Trouble = mb.explained(st.Err).Error(), unansweredText(st.Err)
		if apierrors.IsForbidden(st.Err) && st.Source != informer.Live && !live.ListOnly {
			live.Forbidden = canI(mb.identity)
		}
	}
	c.Live = &live
	return c
}

// Watch implements source.Watcher. It reads the changelog of the collection in the file. Without a changelog it passes
// on the informer's events.
func (m *mirror) Watch(ctx context.Context, q source.WatchQuery, fn func(source.Event) error) error {
	for _, mb := range m.all() {
		if mb.identity.ID() != q.Collection {
			continue
		}
		if mb.watchable.Err() != nil {
			return context.Cause(mb.watchable)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(mb.watchable, func() { cancel(context.Cause(mb.watchable)) })()
		if !mb.keeps {
			return source.WatchInformer(ctx, mb.informer, q, fn)
		}
		err := m.File.Watch(ctx, q, fn)
		if mb.watchable.Err() != nil {
			// If the informer is ending, the error of the file is only a consequence and is not reported.
			return context.Cause(mb.watchable)
		}
		return err
	}
	return m.File.Watch(ctx, q, fn)
}

// Log implements source.Logger. Collections that are only in memory, or not stored yet, have no changelog.
func (m *mirror) Log(ctx context.Context, q source.LogQuery, fn func(source.Logged) error) (time.Time, error) {
	for _, mb := range m.all() {
		if mb.identity.ID() == q.Collection && !mb.informer.Status().Persistent {
			return time.Time{}, consumer.ErrNotKept
		}
	}
	from, err := m.File.Log(ctx, q, fn)
	if errors.Is(err, source.ErrNoCollection) {
		return from, consumer.ErrNotKept
	}
	return from, err
}

// keepChanges makes the file keep the collection's changes for the given time; 0 keeps none. If that fails, the error
// is logged and the sync runs without a changelog.
func (mb *member) keepChanges(ctx context.Context, keep time.Duration) {
	err := mb.informer.Durable().RetainChanges(ctx, keep)
	if err != nil && !errors.Is(err, durable.ErrInMemory) {
		klog.FromContext(ctx).Error(err, "Changes are not kept for larder watch --since", "resource", mb.resource.String())
	}
	mb.keeps = err == nil && keep > 0
}

func keptBefore(ctx context.Context, st *store.Store, id entry.Identity) consumer.Kept {
	kept, err := st.Kept(ctx, id)
	if err != nil {
		return consumer.Kept{}
	}
	return kept
}

// logFreed logs that this sync, which keeps no changes, has deleted the changelog of an earlier sync. The user may not
// have intended that.
func (mb *member) logFreed(ctx context.Context, st *store.Store, was consumer.Kept, configured bool) {
	if was.For == 0 || keptBefore(ctx, st, mb.identity).For > 0 {
		return
	}
	keep := "--keep-changes " + command.Span(was.For)
	if configured {
		keep = "retention.changes: " + command.Span(was.For) + " in the configuration"
	}
	klog.FromContext(ctx).Info(
		"What an earlier sync has kept of the changes is freed: larder watch --since cannot go on after them any more",
		"resource", input.Label(mb.collection()), "keptFor", command.Span(was.For), "changes", was.Last-was.Oldest, "since",
		was.Oldest,
		"hint", keep+" keeps what changes from now on")
}

// auditWait limits how long an audit of a collection waits until the collection's informer is live.
const auditWait = 2 * time.Minute

// auditPatience limits how long the informer may report an error while an audit waits for it: an offline sync must not
// keep the user waiting.
const auditPatience = 10 * time.Second

func (m *mirror) Audit(ctx context.Context) (all []source.Audited, err error) {
	for _, mb := range m.all() {
		a := source.Audited{Collection: mb.identity.ID(), Resource: mb.resource.String(),
			Representation: string(mb.identity.Representation), Keys: []string{}}
		if sc := input.Scope(source.NewCollection(entry.Info{Identity: mb.identity})); sc != "all" {
			a.Scope = sc
		}
		report, err := mb.audit(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		a.Objects, a.Listed, a.Differ = report.Objects, report.Listed, report.Differing
		a.Keys = append(a.Keys, report.Keys...)
		if err != nil {
			a.Error = err.Error()
		}
		all = append(all, a)
	}
	return all, nil
}

func (mb *member) audit(ctx context.Context) (audit.Report, error) {
	limited, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	for failing := time.Now(); ; {
		st := mb.informer.Status()
		if st.Source == informer.Live {
			return mb.informer.Audit(ctx)
		}
		if st.Err == nil {
			failing = time.Now()
		}
		if limited.Err() != nil || time.Since(failing) > auditPatience {
			return audit.Report{}, errors.Join(audit.ErrNotLive, st.Err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limited.Done():
		}
	}
}

// explained adds advice to an error of a watch or list: for a resource that the server does not find, perhaps because
// it has retired the version, and for a forbidden resource.
func (mb *member) explained(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; larder sync needs the verbs list and watch: %s", err, canI(mb.identity))
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w; the server may have it in another version than %s: kubectl api-resources tells, and "+
			"larder sync takes RESOURCE.VERSION.GROUP", err, mb.identity.Version)
	}
	return err
}

// canI returns the kubectl auth can-i commands that show whether a user may list and watch a collection.
func canI(id entry.Identity) string {
	where := "-A"
	if id.Namespace != "" {
		where = "-n " + id.Namespace
	}
	return fmt.Sprintf("kubectl auth can-i list %s %s; kubectl auth can-i watch %[1]s %[2]s", id.GroupResource(), where)
}
