package reflector

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Outcome is what came of an examination.
type Outcome string

// The outcomes.
const (
	// Settled: Object is what the server had at ResourceVersion. The stream has reached that, and no later event that was delivered was about the object: so if
	// what is held of it is something else, something was lost.
	Settled Outcome = "Settled"
	// Moot: the stream has brought a newer state, or delete, of the object.
	Moot Outcome = "Moot"
	// Listed: everything was listed instead.
	Listed Outcome = "Listed"
)

// Examination is what Reflector.Examine has found out about one object.
type Examination struct {
	Key     string
	Outcome Outcome
	// Object is what the server had; nil if it had none, or one that is a stray. Only with Settled.
	Object runtime.Object
	// ResourceVersion that the server was at when it was asked; empty with Listed.
	ResourceVersion string
}

// Examine asks the server for each of these objects, one at a time, and tells the sink with Examined what it has, at a place in the stream where
// that holds: once the watch has reached the resourceVersion of the answer, which on a quiet resource is with the next bookmark. It does not
// wait. Each key is told once, and one that is asked about again before that once for both, unless Run ends before. They wait
// while there is no healthy watch. If objects can not be looked up one by one (Status.NoLookups), or one is cut off again and again, as API servers
// do after a minute, resourceVersions can not be compared, or the stream does not come to an answer within three minutes (longer where the link is so slow that a watch may be silent for
// longer), everything is listed, for ReasonAudit.
func (r *Reflector) Examine(keys ...string) {
	if len(keys) == 0 {
		return
	}
	r.mu.Lock()
	r.examine = append(r.examine, keys...)
	r.mu.Unlock()
	select {
	case r.examineWake <- struct{}{}:
	default:
	}
}

// takeExamine returns the keys that Examine was given, once.
func (r *Reflector) takeExamine() (keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys, r.examine = r.examine, nil
	return keys
}

// examineLimit is how long an answer may wait for the stream. Bookmarks come once a minute; where there are none, and no events, nothing else
// shows that nothing is under way.
const examineLimit = 3 * time.Minute

// suspect is an object that is being examined.
type suspect struct {
	key string
	// at is where the server was when it had obj, since when it has answered.
	at    string
	obj   runtime.Object
	since time.Time
	// seen is the highest resourceVersion of an event about it that was delivered; unclear is set by one that can not be compared.
	seen    string
	unclear bool
}

// moot reports that an event has brought something newer than the answer.
func (u *suspect) moot() bool { return u.unclear || u.seen != "" && below(u.at, u.seen) }

// reply is the answer to one request, with how long it took, or that it is overdue.
type reply struct {
	list    runtime.Object
	rv      string
	err     error
	took    time.Duration
	overdue bool
}

// inquiry is the examination of suspects. The session's goroutine owns it; a request is made on one of its own, which close waits for.
//
//	unasked ── request ──► answered ── the stream reaches the answer's resourceVersion ──► Sink.Examined
//	   ▲          │ error, watch lost
//	   └──────────┘
//
// What was answered stays so when the watch is lost: resourceVersions order it, and the next watch reaches it.
type inquiry struct {
	s        *session
	all      map[string]*suspect
	unasked  []*suspect
	answered []*suspect
	// overdue: the request under way has been reported so.
	overdue bool
	// asking: the request for the first of unasked is under way. from is where the stream stood when it was made.
	asking  bool
	from    string
	answers chan reply
	cancel  context.CancelFunc
	// retryAt is set while a failed request waits for another try.
	retryAt time.Time
	backoff backoff
	// hopeless counts the requests in a row that more time would not help.
	hopeless int
	// timer is set for that, and for the time when the stream should have reached the oldest answer.
	timer clock.Timer
}

func newInquiry(s *session) *inquiry {
	return &inquiry{s: s, all: map[string]*suspect{}, answers: make(chan reply, 2), cancel: func() {}}
}

// begin takes up new keys, and goes on, if the watch is a healthy one. What the stream has passed by now is told.
func (q *inquiry) begin(ctx context.Context) outcome {
	if q.s.pos.State != Watch {
		return outcome{}
	}
	for _, key := range q.s.r.takeExamine() {
		if q.all[key] == nil {
			u := &suspect{key: key}
			q.all[key], q.unasked = u, append(q.unasked, u)
		}
	}
	if err := q.settle(ctx); err != nil {
		return q.s.sinkClosed(err)
	}
	return q.ask(ctx)
}

// ask makes the next request, if there is one to make and none under way.
func (q *inquiry) ask(ctx context.Context) outcome {
	defer q.arm()
	if len(q.unasked) == 0 || q.asking || !q.retryAt.IsZero() {
		return outcome{}
	}
	if !comparableRV(q.s.cur.rv) || q.s.noLookups {
		return q.s.listFor(ReasonAudit)
	}
	q.asking, q.from = true, q.s.cur.rv
	ctx, q.cancel = context.WithCancel(ctx)
	key := q.unasked[0].key
	within := q.s.patience.time()
	go func() { q.answers <- q.request(ctx, within, key) }()
	return outcome{}
}

// request makes the request. It must be one of the newest state: the default of a list without a resourceVersion.
func (q *inquiry) request(ctx context.Context, within time.Duration, key string) reply {
	q.s.r.board.update(func(st *Status) { st.Lookups++; st.Probes++ })
	begun := time.Now()
	list, m, err := q.s.listRequest(ctx, q.s.lw, within, metav1.ListOptions{Limit: 1, FieldSelector: keySelector(key)}, func(err error) {
		q.answers <- reply{err: err, overdue: true}
	})
	took := time.Since(begun)
	if err != nil {
		return reply{err: err, took: took}
	}
	return reply{list: list, rv: m.GetResourceVersion(), took: took}
}

// take takes an answer in.
func (q *inquiry) take(ctx context.Context, a reply) outcome {
	u := q.unasked[0]
	if a.overdue {
		q.overdue = true
		q.s.report(ctx, q.s.describe("look up "+u.key+" of", a.err))
		return outcome{}
	}
	if q.overdue {
		q.s.healthy()
	}
	q.asking, q.overdue = false, false
	q.cancel()
	if !q.s.patience.learn(a.took, a.err) {
		q.hopeless = 0
	} else if q.hopeless++; q.hopeless == 2 { // one may have been a connection that broke by itself
		klog.FromContext(ctx).Info("An object is too large to be looked up over this link; listing instead", "key", u.key, "err", a.err)
		q.hopeless = 0
		return q.s.listFor(ReasonAudit)
	}
	if a.err != nil {
		return q.failed(ctx, u, a.err)
	}
	q.backoff.reset()
	q.s.heard()
	obj, usable := q.pick(ctx, a.list, u.key)
	switch {
	case !usable:
		q.s.giveUpLookups(ctx, "the field selector of the requests is overwritten on the way, or the server ignores it")
		return q.s.listFor(ReasonAudit)
	case !comparableRV(a.rv):
		return q.s.listFor(ReasonAudit)
	case below(a.rv, q.from):
		klog.FromContext(ctx).Info("Our resourceVersion is ahead of the server's: another cluster, or one restored from a backup", "resourceVersion", q.from, "server", a.rv)
		return q.s.listFor(ReasonAhead)
	}
	u.at, u.obj, u.since = a.rv, obj, q.s.o.Clock.Now()
	q.unasked, q.answered = q.unasked[1:], append(q.answered, u)
	return q.begin(ctx)
}

// failed sorts an error: the same request is made again after a wait, unless look-ups do not work here.
func (q *inquiry) failed(ctx context.Context, u *suspect, err error) outcome {
	klog.FromContext(ctx).V(2).Info("An object could not be examined; trying again", "key", u.key, "err", err)
	if apierrors.IsBadRequest(err) {
		q.s.giveUpLookups(ctx, "the server does not take the field selector")
		return q.s.listFor(ReasonAudit)
	}
	q.retryAt = q.s.o.Clock.Now().Add(q.backoff.next(retryAfter(err)))
	q.arm()
	return outcome{}
}

// arm sets the timer for what is due first.
func (q *inquiry) arm() {
	q.disarm()
	at := q.retryAt
	if len(q.answered) > 0 {
		if end := q.answered[0].since.Add(q.limit()); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	if !at.IsZero() {
		q.timer = q.s.o.Clock.NewTimer(max(0, at.Sub(q.s.o.Clock.Now())))
	}
}

// limit is how long an answer may wait: not so short that a watch which may be dead has not been found to be so.
func (q *inquiry) limit() time.Duration {
	return max(examineLimit, q.s.silence.limit(q.s.stream, q.s.cur.rv)+drainGrace)
}

func (q *inquiry) disarm() {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// timerC fires with the timer.
func (q *inquiry) timerC() <-chan time.Time {
	if q.timer == nil {
		return nil
	}
	return q.timer.C()
}

// alarm makes a request that has failed once more, and lists if the stream does not come to an answer.
func (q *inquiry) alarm(ctx context.Context) outcome {
	now := q.s.o.Clock.Now()
	if len(q.answered) > 0 && now.Sub(q.answered[0].since) >= q.limit() {
		klog.FromContext(ctx).Info("Neither an event nor a bookmark has come since objects were examined", "objects", len(q.answered),
			"resourceVersion", q.s.cur.rv, "server", q.answered[0].at)
		return q.s.listFor(ReasonAudit)
	}
	if !now.Before(q.retryAt) {
		q.retryAt = time.Time{}
	}
	return q.ask(ctx)
}

// pick finds the object of that key in the answer; nil if it is not there, or a stray. It is not usable if others are there instead.
func (q *inquiry) pick(ctx context.Context, list runtime.Object, key string) (obj runtime.Object, usable bool) {
	found, others := false, false
	//nolint:errcheck // the function returns none, and the answer is a list
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		ref, err := q.s.refOf(item)
		if ref.Key != key {
			others = true
			return nil
		}
		if found = true; err == nil {
			err = q.s.admit(ref, item)
		}
		if err == nil && q.s.leaveOut(ctx, item) {
			return nil // what has taken its name is of another shard
		}
		if err == nil {
			obj = item
			return nil
		}
		klog.FromContext(ctx).V(2).Info("An object that was examined is none of those asked for", "key", key, "err", err)
		return nil
	})
	return obj, found || !others
}

// note is told of each event that was delivered. What was left out, of another shard or a stray, brings nothing newer of what is held.
func (q *inquiry) note(ref ObjectRef) {
	switch u := q.all[ref.Key]; {
	case u == nil:
	case comparableRV(ref.ResourceVersion):
		u.seen = maxRV(u.seen, ref.ResourceVersion)
	default:
		u.unclear = true
	}
}

// furthest is the highest resourceVersion of the answers that are still to be told; empty if there is none.
func (q *inquiry) furthest() (rv string) {
	for _, u := range q.answered {
		rv = maxRV(rv, u.at)
	}
	return rv
}

// settle tells the sink of the suspects whose answers the stream has reached. An error is the sink's.
func (q *inquiry) settle(ctx context.Context) (err error) {
	if len(q.answered) == 0 || q.s.pos.State != Watch {
		return nil
	}
	q.answered = slices.DeleteFunc(q.answered, func(u *suspect) bool {
		if err != nil || !q.s.cur.reached(u.at) {
			return false
		}
		err = q.tell(ctx, u)
		return err == nil
	})
	return err
}

// tell tells what came of one suspect. What was lost of it is not held to be the newest any more: the guard would take that for a rewind.
func (q *inquiry) tell(ctx context.Context, u *suspect) error {
	e := Examination{Key: u.key, Outcome: Moot, ResourceVersion: u.at}
	if !u.moot() {
		e.Outcome, e.Object = Settled, u.obj
	}
	if q.s.untold {
		if err := q.s.tellPlace(ctx); err != nil {
			return err
		}
	}
	if err := q.s.sink.Examined(ctx, e); err != nil {
		return err
	}
	delete(q.all, u.key)
	if e.Outcome != Settled {
		return nil
	}
	q.s.newest.remove(u.key)
	if u.obj != nil {
		if ref, err := q.s.refOf(u.obj); err == nil {
			q.s.newest.put(ref)
		}
	}
	return nil
}

// listed tells that a list has come instead of the answers.
func (q *inquiry) listed(ctx context.Context) error {
	for _, u := range slices.Concat(q.answered, q.unasked) {
		if err := q.s.sink.Examined(ctx, Examination{Key: u.key, Outcome: Listed}); err != nil {
			return err
		}
	}
	q.answered, q.unasked = nil, nil
	clear(q.all)
	return nil
}

// close gives up what is under way and waits for it. It will be asked again.
func (q *inquiry) close() {
	q.cancel()
	for q.asking {
		q.asking = (<-q.answers).overdue
	}
	q.retryAt, q.overdue = time.Time{}, false
	q.disarm()
}
