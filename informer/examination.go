package informer

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// examinedDelta is the type of a delta that says what the server has of one object, in its place in the stream.
const examinedDelta cache.DeltaType = "Examined"

// examined is its object: Object has been transformed, unless err says why not.
type examined struct {
	reflector.Examination
	ref reflector.ObjectRef // of Object; without a UID if there is none
	err error
}

// Examined pushes what came of Reflector.Examine.
func (s *sink) Examined(ctx context.Context, e reflector.Examination) error {
	d := examined{Examination: e}
	if e.Object != nil {
		acc, err := meta.Accessor(e.Object)
		if err != nil {
			return err // the reflector has made sure
		}
		d.ref = refOf(acc)
		if d.Object, d.err = apply(klog.FromContext(ctx), s.transform, e.Object); d.err != nil {
			s.skip(ctx, e.Key, d.err)
		}
	}
	return s.push(ctx, examinedDelta, d)
}

// examination is some keys that somebody has asked about.
type examination struct {
	waiting map[string]struct{} // guarded by examinations.mu, as are the others
	sealed  bool                // no more keys are added
	found   findings
	// relisted: a list has come in the place of some answers, or was waited for.
	relisted bool
	// forList waits for a list, too.
	forList bool
	// done is closed when all has come.
	done chan struct{}
	// after is called by the pump then; may be nil.
	after func(ctx context.Context, ex *examination)
}

// examinations are those under way. Answers come through the pump, so when one has ended what it found is stored.
type examinations struct {
	mu   sync.Mutex
	open []*examination // guarded by mu
}

func (s *examinations) begin(after func(ctx context.Context, ex *examination)) *examination {
	ex := &examination{waiting: map[string]struct{}{}, done: make(chan struct{}), after: after}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, ex)
	return ex
}

// add notes that ex waits for these keys, before the reflector is asked.
func (s *examinations) add(ex *examination, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		ex.waiting[key] = struct{}{}
	}
}

// seal says that nothing is added to ex any more. If nothing is waited for, ex is done.
func (s *examinations) seal(ex *examination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ex.sealed = true
	if s.endLocked(ex) {
		close(ex.done)
	}
}

// awaitList says that ex waits for the end of a list.
func (s *examinations) awaitList(ex *examination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ex.forList = true
}

// drop forgets ex, whatever it still waits for, and returns what was found.
func (s *examinations) drop(ex *examination) (f findings, relisted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(o *examination) bool { return o == ex })
	return ex.found, ex.relisted
}

func (s *examinations) endLocked(ex *examination) bool {
	if !ex.sealed || ex.forList || len(ex.waiting) > 0 {
		return false
	}
	s.open = slices.DeleteFunc(s.open, func(o *examination) bool { return o == ex })
	return true
}

// answered takes an answer in; f is nil if nothing was found. The first who has asked is told. It returns those that have ended by it.
func (s *examinations) answered(key string, outcome reflector.Outcome, f *Finding) (ended []*examination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ex := range slices.Clone(s.open) {
		if _, asked := ex.waiting[key]; !asked {
			continue
		}
		delete(ex.waiting, key)
		if f != nil {
			ex.found.add(*f)
			f = nil
		}
		ex.relisted = ex.relisted || outcome == reflector.Listed
		if s.endLocked(ex) {
			ended = append(ended, ex)
		}
	}
	return ended
}

// size is how many keys ex waits for, or has found to differ.
func (s *examinations) size(ex *examination) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(ex.waiting) + len(ex.found.first) + ex.found.more
}

// asked reports whether somebody waits for an answer about the key.
func (s *examinations) asked(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.open, func(ex *examination) bool {
		_, asked := ex.waiting[key]
		return asked
	})
}

// listed says that a list has been stored. It returns those that have ended by it.
func (s *examinations) listed() (ended []*examination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ex := range slices.Clone(s.open) {
		if !ex.forList {
			continue
		}
		ex.forList, ex.relisted = false, true
		clear(ex.waiting)
		if s.endLocked(ex) {
			ended = append(ended, ex)
		}
	}
	return ended
}

// examined compares what the server has of an object with what is stored, and repairs that.
func (p *pump) examined(ctx context.Context, d fifo.Delta) error {
	e := d.Object.(examined)
	var f *Finding
	switch {
	case e.Outcome == reflector.Settled && p.void:
		e.Outcome = reflector.Listed // one has been asked for, and the stream has a hole up to it
	case e.Outcome == reflector.Settled && e.err != nil:
		p.noteUnstorable(e.ref)
	case e.Outcome == reflector.Settled:
		var err error
		if f, err = p.compare(ctx, e); err != nil {
			return err
		}
	}
	p.tellEnded(ctx, p.examinations.answered(e.Key, e.Outcome, f))
	return nil
}

// tellEnded does what is to be done after examinations, before anybody is told that they are done.
func (p *pump) tellEnded(ctx context.Context, all []*examination) {
	for _, ex := range all {
		if ex.after != nil {
			ex.after(ctx, ex)
		}
	}
	for _, ex := range all {
		close(ex.done)
	}
}

// compare makes what is stored what the server has. The place in the stream stays: it has come to where that holds. It returns what it
// has found, or nil if there is no difference, or if the object can not be stored.
func (p *pump) compare(ctx context.Context, e examined) (f *Finding, err error) {
	p.waitRoom(ctx)
	err = p.commit(ctx, func() (store.Result, error) {
		held, found, err := p.store.Ref(ctx, e.Key)
		if err != nil {
			return store.Result{}, err
		}
		now := compareRefs(e.Key, reflector.ObjectRef(held), found, e.ref, e.Object != nil)
		if now == nil {
			return store.Result{}, nil
		}
		res, err := p.store.Apply(ctx, store.Batch{Ops: []store.Op{e.op()}, LastContact: p.contactTime()})
		switch {
		case err != nil:
		case len(res.Skipped) > 0:
			p.noteUnstorable(e.ref)
		case f == nil: // else an attempt whose outcome was unknown has found it
			f = now
		}
		return res, err
	}, func(changes []store.Change, _ bool) {
		if len(changes) == 0 && e.Object == nil && p.unseen[e.Key] {
			changes = []store.Change{{Type: cache.Deleted, Key: e.Key}} // it was lost to damage, and handlers know it
		}
		p.tell(changes, true)
	})
	return f, err
}

// op makes the store have what the server has.
func (e examined) op() store.Op {
	if e.Object == nil {
		return store.Op{Type: store.Delete, Object: cache.DeletedFinalStateUnknown{Key: e.Key}}
	}
	return store.Op{Type: store.Upsert, Object: e.Object, Size: int(sizeOf(e.Object))}
}

// compareRefs compares two states; nil if they are the same.
func compareRefs(key string, held reflector.ObjectRef, isHeld bool, server reflector.ObjectRef, exists bool) *Finding {
	f := &Finding{Key: key, Stored: held, Server: server}
	switch {
	case !exists && !isHeld:
		return nil
	case !exists:
		f.Kind = Ghost
	case !isHeld:
		f.Kind = Missing
	case held.UID == server.UID && held.ResourceVersion == server.ResourceVersion:
		return nil
	case held.UID != server.UID && held.UID != "":
		f.Kind = OtherObject
	default:
		f.Kind = Differs
	}
	return f
}

// maxUnstorable bounds what is remembered of objects that can not be stored.
const maxUnstorable = 1000

// noteUnstorable notes that the object can not be stored in that state, so that audits do not miss it.
func (i *Informer) noteUnstorable(ref reflector.ObjectRef) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unstorable == nil || len(i.unstorable) >= maxUnstorable {
		i.unstorable = map[string]string{}
	}
	i.unstorable[ref.Key] = ref.ResourceVersion
}

// isUnstorable reports whether that is known of the state.
func (i *Informer) isUnstorable(ref reflector.ObjectRef) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	rv, known := i.unstorable[ref.Key]
	return known && rv == ref.ResourceVersion
}

// foundByList is what a list has found that was made since objects were lost, or were suspected to be.
type foundByList struct {
	reason reflector.Reason
	// since is the resourceVersion at which a list after damage began: what is newer has changed meanwhile, and was not lost.
	since string
	findings
}

// causeOf is the cause of an incident that a list for that reason repairs; empty if it is none.
func causeOf(reason reflector.Reason) IncidentCause {
	switch reason {
	case reflector.ReasonAudit:
		return CauseAudit
	case reflector.ReasonDamaged:
		return CauseDamaged
	}
	return ""
}

// noteListed takes in what the list has changed. Of one that an audit has asked for only suspects count: what else has changed may have been under way.
func (p *pump) noteListed(changes []store.Change) {
	f := &p.found
	cause := causeOf(f.reason)
	if cause == "" {
		return
	}
	for _, c := range changes {
		if cause == CauseAudit && !p.examinations.asked(c.Key) {
			continue
		}
		server := refOfObject(c.New)
		if c.Type == cache.Deleted {
			server = reflector.ObjectRef{}
		}
		if cause == CauseDamaged && newer(server.ResourceVersion, f.since) {
			continue
		}
		stored := refOfObject(c.Old)
		if found := compareRefs(c.Key, stored, c.Type != cache.Added, server, c.Type != cache.Deleted); found != nil {
			f.add(*found) // else another body, since the list rewrites them all
		}
	}
}

func refOfObject(obj runtime.Object) reflector.ObjectRef {
	if obj == nil {
		return reflector.ObjectRef{}
	}
	acc, err := meta.Accessor(obj)
	if err != nil {
		return reflector.ObjectRef{}
	}
	return refOf(acc)
}

// newer compares two resourceVersions; neither is newer if they can not be compared.
func newer(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}
