package informer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
)

// Source says where the readers' data comes from.
type Source string

// The sources.
const (
	// None: no list was ever complete.
	None Source = "none"
	// FromDisk: the stored state. It is the source from the start until the server has confirmed that nothing was
	// missed, while the connection is lost, while a list replaces the objects (after the first list, until its watch is
	// open), while the store fails, while objects are missing that the store has lost, and after the run.
	FromDisk Source = "disk"
	// Live: the watch is open, the server's state at the last connect and everything that came since have been applied,
	// no object that the file has lost is missing, and the connection has not been lost since. The source stays Live
	// when a watch ends in order after five to ten minutes and another follows.
	Live Source = "live"
)

// Status is a snapshot of an informer.
type Status struct {
	Source Source
	// SourceSince is when Source last changed, in this process. SourceChanges counts how often each source was entered.
	// See Informer.SubscribeSource.
	SourceSince   time.Time
	SourceChanges map[Source]int
	// Persistent is false if the objects are in memory only. NotPersistent says why.
	Persistent    bool
	NotPersistent string
	// Sealed is true if new records are sealed (store.Options.Encryption). PlainText is true if the file still has
	// older, unsealed records; store.Store.Rekey removes them.
	Sealed, PlainText bool
	// Undecoded is true if objects are stored as the server sends them: see Options.ClientDecodes.
	Undecoded bool
	// Encoding is the encoding of requests if Options.ServerVersion is set: "protobuf" or "JSON", with the reason for
	// JSON if it depends on the server. It is empty before the first connect.
	Encoding string
	Synced   bool
	// ResourceVersion is the resourceVersion of the stored state.
	ResourceVersion string
	Objects         int
	// StoredContact is the LastContact that was stored with ResourceVersion. After a restart
	// without a server, the objects are the server's state of this time.
	StoredContact time.Time
	// LastContact is when the server last confirmed the objects as its current state, or sent a newer one: in this run,
	// or, if there was no contact yet, in an earlier one. The objects are at least as new as the server's state at that
	// time.
	LastContact time.Time
	Reflector   reflector.Status
	// Seed is the outcome of Options.Seed in this run; nil if no seed was needed, or not yet.
	Seed *SeedStatus
	// Rewriting is why a list must rewrite all stored objects, which are served until then; empty if none must. The
	// attributes of the objects (cluster, codec, Go types, version of the transform, OpenAPI schema) are stored with
	// them and compared at every connect. If one differs, that list comes before HasSynced (with Resumed), or within
	// ten minutes for a changed OpenAPI hash. Handlers get the differences. A value that was unknown at the last list,
	// such as a cluster id that could not be read, is added by the next list.
	Rewriting reflector.Reason
	// Unguarded has a sentence for each change of the server or the transform that would go unnoticed: because an option
	// is not set, the server denies the request, or the ListerWatcher cannot look up single objects (the ListerWatcher of
	// cache.NewListWatchFromClient overwrites the field selector). Unguarded also says if the reflector filters by shard
	// because the server ignores the shard selector (Reflector.Unsharded).
	Unguarded []string
	// Incidents counts this run's audits that found differences between the stored objects and the server's, and its
	// lists that restored objects which the file had lost.
	Incidents map[audit.Cause]int
	Audit     audit.Status
	// Pending is the number of received objects that are not stored yet.
	Pending int
	// Handlers lists the registered handlers in the order of registration, and Durable the durable handlers. Both cover
	// all informers that share the collection, and are empty after the last run.
	Handlers []HandlerStatus
	Durable  []durable.Status
	// Skipped counts delivered objects that could not be keyed, transformed, encoded or indexed. Reflector.Skipped
	// counts objects that were not delivered, because they are malformed or not of the requested type, namespace or
	// labels.
	Skipped int
	// LeftOut lists the objects that are missing, or stored in an older state, because this run or an earlier one could
	// not store them. The file keeps each entry until the object is stored or deleted. The next start looks the objects up
	// by name once its watch has caught up, so a fixed program lacks nothing. Everything is listed
	// (reflector.ReasonLeftOut) if they are more than entry.MaxLeftOut, the server refuses the look-ups, or it sends no
	// bookmarks that show how far the watch has come. LeftOutMore is true if there may be others.
	LeftOut     []entry.LeftOut
	LeftOutMore bool
	// Notes are the known defects of the readers' data. While Source is Live, no note is about their age.
	Notes []entry.Note
	// Err is why the informer is degraded; nil while it is healthy. Causes are the store, the connection, unreadable
	// objects, and a ListerWatcher that does not list the objects of Options.Identity and the example object.
	Err error
}

// HandlerStatus is a snapshot of a handler.
type HandlerStatus struct {
	// Name is client-go's name of the handler: the functions of a cache.ResourceEventHandlerFuncs, or the handler's
	// type. Several registrations may have the same name.
	Name string
	// Pending is the number of queued calls, without the stored objects that have not been read for the handler yet.
	Pending int
	// Merged counts the updates that were merged with an earlier update because the handler was behind.
	Merged int
}

// Status returns a snapshot. Safe at any time.
func (i *Informer) Status() Status {
	i.reviewSource()
	shared := i.shared
	s := Status{
		NotPersistent: shared.memoryOnly,
		Synced:        i.HasSynced(),
		LastContact:   shared.contactTime(),
		Pending:       shared.queue.Len(),
		Undecoded:     shared.undecoded,
		Encoding:      shared.encoding.String(),
		Skipped:       int(shared.skipped.Load()),
		Audit:         shared.auditor.Status(),
		Incidents:     shared.auditor.Incidents(),
	}
	s.Persistent = s.NotPersistent == ""
	s.Source, s.SourceSince, s.SourceChanges = i.sources.status()
	storeErr, commitErr := shared.health.errs()
	s.Rewriting = shared.health.rewritingNow()
	if r := shared.currentReflector(); r != nil {
		s.Reflector = r.Status()
	}
	s.Seed = shared.seeds.get(s.Reflector.SeedErr)
	s.Unguarded = shared.health.unguardedNow()
	if why := s.Reflector.NoLookups; why != "" {
		s.Unguarded = append(s.Unguarded, "a server that was restored and has overtaken us: "+why)
	}
	if why := s.Reflector.Unsharded; why != "" {
		s.Unguarded = append(s.Unguarded, "a shard: "+why)
	}
	info, err := shared.store.Info(context.Background())
	s.ResourceVersion, s.Objects, s.StoredContact = info.ResourceVersion, info.Objects, info.LastContact
	s.Sealed, s.PlainText = info.Sealed, info.PlainText
	s.LeftOut, s.LeftOutMore = info.LeftOut, info.LeftOutMore
	if s.LastContact.IsZero() { // no contact in this run
		s.LastContact = info.LastContact
	}
	info.LastContact = s.LastContact
	if s.Source == Live {
		info.LastContact = time.Time{}
	}
	s.Notes = info.Notes(i.clock.Now(), s.Reflector.ListOnly)
	for _, member := range shared.attachedNow() {
		for _, h := range member.processor.Status() {
			s.Handlers = append(s.Handlers, HandlerStatus(h))
		}
		s.Durable = append(s.Durable, member.durable.Status(info.NextSeq)...)
	}
	s.Err = firstError(i.refusal(), storeErr, commitErr, err, s.Reflector.Err, s.Reflector.Stray, shared.indexer.Err(),
		unindexed(s.LeftOut))
	return s
}

// unindexed returns an error if an object was left out because an index function failed for it.
func unindexed(all []entry.LeftOut) error {
	for _, l := range all {
		if l.Reason == entry.LeftOutIndex {
			return fmt.Errorf("an index function failed for %s: the object is missing, or held in an older state, until it "+
				"changes; Status.LeftOut has all such objects, and the log the error", base.PrintableKey(l.Key))
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Observer receives events that Status does not record; package metrics implements it. Several goroutines of the
// informer may call it at a time, under no lock, and wait for it, so its methods must be fast. They may call only
// Status, Identity, File and SubscribeSource of the informer. If Informers share a collection, HandlerCalled is called
// on the Observer of the handler's Informer. Committed is called once per distinct Observer, with its first Informer.
type Observer interface {
	// InformerMade is called by New when it succeeds.
	InformerMade(i *Informer)
	// InformerEnded is called when the run ends, before another informer can open the collection. HandlerCalled may
	// follow, for a call that was still running.
	InformerEnded(i *Informer)
	// Committed is called after each attempt to write to the store, except for attempts that the end of the run has
	// cancelled.
	Committed(i *Informer, c Commit)
	// HandlerCalled is called when a handler's call has returned or panicked. handler is HandlerStatus.Name.
	HandlerCalled(i *Informer, handler string, took time.Duration)
}

// Commit is an attempt to commit all changes since the last commit: events, or a list or a part of it. For an informer
// without a file, a Commit describes a single write to memory.
type Commit struct {
	// Changes is the number of objects that were added, updated or deleted. It is 0 if only the resourceVersion
	// changed.
	Changes int
	Took    time.Duration
	// Err is nil if the attempt succeeded. Otherwise Changes is 0, and the same changes are attempted again.
	Err error
}

// observed wraps an attempt to write: it saves a write to memory in written, for reportWrite. With a file it returns
// attempt unchanged, because the store reports its commits.
func (p *loop) observed(attempt func() (entry.Result, error)) func() (entry.Result, error) {
	if p.file != nil {
		return attempt
	}
	return func() (entry.Result, error) {
		begun := p.clock.Now()
		res, err := attempt()
		switch {
		case err != nil:
			p.written = &Commit{Took: p.clock.Since(begun), Err: err}
		case !res.Staged:
			p.written = &Commit{Changes: len(res.Changes), Took: p.clock.Since(begun)}
		}
		return res, err
	}
}

// reportWrite reports the last write to memory to the observers. The caller holds no lock.
func (p *loop) reportWrite(ctx context.Context) {
	w := p.written
	p.written = nil
	if w != nil && (w.Err == nil || ctx.Err() == nil && !isClosed(w.Err)) {
		p.notifyObservers(*w)
	}
}

func (i *sharedInformer) notifyObservers(c Commit) {
	var notified []Observer
	for _, member := range i.attachedNow() {
		o := member.o.Observer
		comparable := o != nil && reflect.ValueOf(o).Comparable()
		if o == nil || comparable && slices.Contains(notified, o) {
			continue
		}
		if comparable {
			notified = append(notified, o)
		}
		o.Committed(member, c)
	}
}

// health holds the parts of Status about the store and about changes that would go unnoticed. Safe for concurrent use.
type health struct {
	mu        sync.Mutex        // mu guards storeErr, commitErr, rewriting and unguarded
	storeErr  error             // storeErr is why the store cannot be written
	commitErr error             // commitErr is why dirty changes cannot be committed
	rewriting reflector.Reason  // rewriting is why a list must rewrite all stored objects; "" if none must
	unguarded map[string]string // unguarded is Status.Unguarded by kind of change; it is never nil
	// distrusts is true once an object could not be decoded, in this run or an earlier one.
	distrusts atomic.Bool
}

func (h *health) distrustsNow() bool { return h.distrusts.Load() }

func (h *health) errs() (store, commit error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.storeErr, h.commitErr
}

func (h *health) setStoreErr(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.storeErr = err
}

func (h *health) setCommitErr(err error) (before error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.commitErr = h.commitErr, err
	return before
}

func (h *health) rewritingNow() reflector.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rewriting
}

func (h *health) setRewriting(r reflector.Reason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rewriting = r
}

// setUnguarded sets err as the reason why a change of the server or the transform would go unnoticed; a nil err deletes
// the reason. It returns true if the change has a reason now and had none before.
func (h *health) setUnguarded(change string, err error) (isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.unguarded, change)
		return false
	}
	_, known := h.unguarded[change]
	h.unguarded[change] = err.Error()
	return !known
}

// unguardedNow returns the sentences of Status.Unguarded, without those that derive from the reflector's status.
func (h *health) unguardedNow() (sentences []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, change := range slices.Sorted(maps.Keys(h.unguarded)) {
		sentences = append(sentences, change+": "+h.unguarded[change])
	}
	return sentences
}

const whatTransform = "a changed transform"

// ErrTransformVersion is returned for a transform of objects in a file if Options.TransformVersion is not set.
var ErrTransformVersion = errors.New("objects of a file have a transform without a version: set " +
	"informer.Options.TransformVersion, and change it with the function; informer.Unversioned accepts that stored " +
	"objects keep the form that an older function gave them")

var errUnversioned = errors.New("Options.TransformVersion is informer.Unversioned")

// unguardedBy returns the changes that would go unnoticed because options are not set, each with the reason.
func unguardedBy(o Options) map[string]string {
	why := map[string]string{}
	if o.ClusterID == nil {
		why[attributes.Cluster] = "Options.ClusterID is not set"
	}
	if o.OpenAPIHash == nil && o.Identity.Representation != entry.Metadata { // metadata does not depend on the schema
		why[attributes.Schema] = "Options.OpenAPIHash is not set (for the informers of a factory: factory.Options.RESTClient)"
	}
	return why
}

// UnguardedMessage is the log message about a change of the server that would go unnoticed. A program with many
// informers that reports Status.Unguarded itself may filter it out.
const UnguardedMessage = "A change of the server would not be noticed"

// noteUnguarded adds a change of the server that would go unnoticed to Status.Unguarded, and logs it the first time. A
// nil err removes the change.
func (i *sharedInformer) noteUnguarded(ctx context.Context, change string, err error) {
	if i.health.setUnguarded(change, err) {
		klog.FromContext(ctx).Info(UnguardedMessage, "change", change, "why", err.Error())
	}
}

func (i *sharedInformer) logUnguarded(logger klog.Logger) {
	if i.transform != nil && i.o.TransformVersion == Unversioned {
		i.health.setUnguarded(whatTransform, errUnversioned)
	}
	if changes := i.health.unguardedNow(); i.memoryOnly == "" && len(changes) > 0 {
		logger.Info("Changes that would not be noticed", "type", i.o.ObjectDescription, "representation",
			i.o.Identity.Representation, "changes", changes)
	}
}
