package informer

import (
	"context"
	"fmt"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/reflector"
)

// Source says where the data that readers see comes from.
type Source string

// The sources.
const (
	// None: nothing has been stored or listed yet.
	None Source = "none"
	// FromDisk: the stored state. The server has not confirmed it in this run, or the connection is lost.
	FromDisk Source = "disk"
	// Live: everything that the server had at the last connect has been applied, no object that the file has lost is
	// missing, and the connection has not been lost since. It stays Live when a watch ends in order after five to ten
	// minutes and another follows.
	Live Source = "live"
)

// Status is a snapshot of an informer.
type Status struct {
	Source Source
	// SourceSince is when Source last changed, in this process. SourceChanges counts how often each source was entered.
	// See Informer.SubscribeSource.
	SourceSince   time.Time
	SourceChanges map[Source]int
	// Persistent is false if the objects are in memory only, and NotPersistent says why.
	Persistent    bool
	NotPersistent string
	// Sealed is true if new records are sealed (store.Options.Encryption). PlainText is true if the file still has
	// records from before that, unsealed; store.Store.Rekey removes them.
	Sealed, PlainText bool
	// Undecoded is true if objects are stored as the server sends them, and decoded when somebody asks for them: see
	// Options.ClientDecodes.
	Undecoded bool
	// Encoding is the encoding of requests if Options.ServerVersion is set: "protobuf" or "JSON", and why it is JSON if
	// that depends on the server. It is empty before the first connect.
	Encoding string
	Synced   bool
	// ResourceVersion is the resourceVersion of the stored state.
	ResourceVersion string
	Objects         int
	// StoredContact is the LastContact that was stored with ResourceVersion: without a server, that is how old the
	// objects are after a restart.
	StoredContact time.Time
	// LastContact is when the server last confirmed the objects as its present state, or moved them on: in this run, or,
	// before that, in an earlier one. The objects are at least as new as the server's state at that time.
	LastContact time.Time
	// Reflector is the reflector's status: the connection, resumes, and relists with their reasons.
	Reflector reflector.Status
	// Seed is what Options.Seed has come to in this run; nil if it was not needed, or not yet.
	Seed *SeedStatus
	// Rewriting is why a list has to rewrite the stored bodies, which are served until then; empty if none has to.
	Rewriting reflector.Reason
	// Unguarded lists, in a sentence each, changes of the server or the transform that would not be noticed: because an
	// option is not set, the server does not permit the request, or the ListerWatcher cannot look up single objects. It
	// also says if the server ignores the shard selector (Reflector.Unsharded), so that the reflector filters by shard.
	Unguarded []string
	// Incidents counts the audits of this run that found stored objects to differ from the server's, and the lists of
	// objects that the file had lost.
	Incidents map[audit.Cause]int
	// Audit is the status of the last audit; see Informer.Audit.
	Audit audit.Status
	// Pending is the number of objects that have been received but not stored yet.
	Pending int
	// Handlers lists the registered handlers in the order of their registration, and Durable the durable handlers: those
	// of all informers that share the collection, and of none after the last run.
	Handlers []HandlerStatus
	Durable  []durable.Status
	// Skipped counts objects that were delivered but could not be keyed, transformed, encoded or indexed.
	// Reflector.Skipped counts those that were not delivered, because they are malformed or not of the requested type,
	// namespace or labels.
	Skipped int
	// LeftOut lists the objects that are missing, or held in an older state, because this run or an earlier one could not
	// store them. The next start gets them again. LeftOutMore is true if there may be others. See entry.Info.
	LeftOut     []entry.LeftOut
	LeftOutMore bool
	// Notes are the known defects of what readers get: see entry.Info.Notes. A Source that is Live has no note of the age.
	Notes []entry.Note
	// Err is why the informer is degraded (store, connection, reading, a ListerWatcher that does not list what
	// Options.Identity and the example object say); nil while it is healthy.
	Err error
}

// HandlerStatus is a snapshot of a handler.
type HandlerStatus struct {
	// Name is client-go's: the functions of a cache.ResourceEventHandlerFuncs, else the handler's type.
	// Registrations may share it.
	Name string
	// Pending is the number of queued calls. It does not count stored objects that have not been read for the handler
	// yet.
	Pending int
	// Merged counts the updates that were merged with an earlier update of their object, because the handler was behind.
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

// unindexed returns an error if an index function has failed for an object, so that the object was left out.
func unindexed(all []entry.LeftOut) error {
	for _, l := range all {
		if l.Reason == entry.LeftOutIndex {
			return fmt.Errorf("an index function failed for %s: the object is missing, or held in an older state, until it "+
				"changes; Status.LeftOut has all such objects, and the log the error", printable.Key(l.Key))
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
