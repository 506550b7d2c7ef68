package informer

import (
	"context"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/reflector"
)

// Source says where the data that readers see comes from.
type Source string

// The sources.
const (
	// None: nothing has been stored or listed yet.
	None Source = "none"
	// FromDisk: the stored state, not confirmed by the server in this run, or out of contact with it.
	FromDisk Source = "disk"
	// Live: everything that the server had when it was last heard has been applied, nothing is missing that the file has
	// lost, and the connection has not been lost since. Watches end in order every five to ten minutes, and others follow;
	// that changes nothing.
	Live Source = "live"
)

// Status is a snapshot of an informer.
type Status struct {
	Source Source
	// SourceSince is when Source began to be so, in this process; SourceChanges is how often it came to be each. See
	// Informer.SubscribeSource.
	SourceSince   time.Time
	SourceChanges map[Source]int
	// Persistent is false if the objects are in memory only, and NotPersistent says why.
	Persistent    bool
	NotPersistent string
	// Sealed: what is persisted is sealed (store.Options.Encryption). PlainText: what was persisted before that is legible
	// in the file, until store.Store.Rekey.
	Sealed, PlainText bool
	Synced            bool
	// ResourceVersion that the stored objects stand at.
	ResourceVersion string
	Objects         int
	// StoredContact is when the server had last been heard when ResourceVersion was stored: a restart resumes from
	// there, and without a server the objects are as old as that.
	StoredContact time.Time
	// LastContact is when the server was last heard, in this run or, if it has not been in this one, in an earlier.
	LastContact time.Time
	// Reflector is the connection's side: resumes, relists and why.
	Reflector reflector.Status
	// Rewriting is why the stored bodies are being, or are to be, written anew, although they are served
	// until then; empty if they need not be.
	Rewriting reflector.Reason
	// Unguarded says, a sentence each, which changes of the server, and of the transform, would not be noticed, because an
	// option is not set, the server does not allow to read what it takes, or the ListerWatcher cannot look up single
	// objects; and that the server does not heed the shard selector (Reflector.Unsharded), so that the shard is made here.
	Unguarded []string
	// Incidents are the newest objects that were lost or changed without the stream saying so, and have been repaired; the
	// newest first, 10 at most. IncidentTotals counts them all, of this run.
	Incidents      []audit.Incident
	IncidentTotals map[audit.Cause]int
	// Audit is the newest one; see Informer.Audit.
	Audit audit.Status
	// Pending is what has been received but not stored yet.
	Pending int
	// Handlers are the registered handlers, in the order of their registration; none after the run.
	Handlers []HandlerStatus
	// Durable are the durable handlers, likewise.
	Durable []durable.Status
	// Skipped counts objects that were delivered and could not be keyed, transformed, encoded or indexed. Those that were
	// not delivered, because they are of another type, namespace or label than asked for, or no objects at all, are
	// counted in Reflector.Skipped.
	Skipped int
	// LeftOut are the objects that are missing, or held in an older state, since they were refused: by this run or an
	// earlier one, of which the next start gets them again. LeftOutMore: there are, or may be, others. See store.Info.
	LeftOut     []entry.LeftOut
	LeftOutMore bool
	// Err is why the informer is degraded (store, connection, reading, a ListerWatcher that lists something else than
	// Options.Identity and the example object say); nil while it is healthy.
	Err error
}

// HandlerStatus is a snapshot of a handler.
type HandlerStatus struct {
	// Name is client-go's: the functions of a cache.ResourceEventHandlerFuncs, else the handler's type.
	// Registrations may share it.
	Name string
	// Pending is how many calls wait for the one that is being made to return. Stored objects that are yet to be read for
	// the handler do not count.
	Pending int
	// Merged counts the updates that were told together with an earlier one of their object, since the handler was behind.
	Merged int
}

// Status returns a snapshot. Safe at any time.
func (i *Informer) Status() Status {
	i.reviewSource()
	s := Status{
		NotPersistent: i.memoryOnly,
		Synced:        i.HasSynced(),
		LastContact:   i.contactTime(),
		Pending:       i.queue.Len(),
		Skipped:       int(i.skipped.Load()),
		Audit:         i.auditor.Status(),
	}
	for _, h := range i.processor.Status() {
		s.Handlers = append(s.Handlers, HandlerStatus(h))
	}
	s.Persistent = s.NotPersistent == ""
	s.Source, s.SourceSince, s.SourceChanges = i.sources.status()
	s.Incidents, s.IncidentTotals = i.auditor.Incidents()
	storeErr, commitErr := i.health.errs()
	s.Rewriting = i.health.rewritingNow()
	if r := i.currentReflector(); r != nil {
		s.Reflector = r.Status()
	}
	s.Unguarded = i.health.unguardedNow()
	if why := s.Reflector.NoLookups; why != "" {
		s.Unguarded = append(s.Unguarded, "a server that was restored and has overtaken us: "+why)
	}
	if why := s.Reflector.Unsharded; why != "" {
		s.Unguarded = append(s.Unguarded, "a shard: "+why)
	}
	info, err := i.store.Info(context.Background())
	s.ResourceVersion, s.Objects, s.StoredContact = info.ResourceVersion, info.Objects, info.LastContact
	s.Sealed, s.PlainText = info.Sealed, info.PlainText
	s.LeftOut, s.LeftOutMore = info.LeftOut, info.LeftOutMore
	if s.LastContact.IsZero() { // else that is newer, whatever the clock said in an earlier run
		s.LastContact = info.LastContact
	}
	s.Durable = i.durable.Status(info.NextSeq)
	s.Err = firstError(storeErr, commitErr, err, s.Reflector.Err, s.Reflector.Stray, i.indexer.Err())
	return s
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
