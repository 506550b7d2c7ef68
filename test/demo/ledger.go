package demo

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// ledger is an event handler that compares the received events with the expected ones.
type ledger struct {
	marker string

	mu sync.Mutex // mu guards the fields below
	// stored has the resourceVersions on disk before the start, by key. An object is removed when the handler receives it
	// as stored.
	stored   map[string]string
	replayed int
	got      changes
	// deleting has the keys of objects that received a deletionTimestamp by an update, as kube-apiserver deletes a pod.
	deleting         []string
	problems         []string
	marked, unmarked chan struct{}
}

// newLedger returns an event handler for a start with these objects on disk. marker is the key of a pod that is created
// last: its events show that all earlier events have arrived.
func newLedger(stored map[string]string, marker string) *ledger {
	return &ledger{stored: stored, marker: marker, marked: make(chan struct{}), unmarked: make(chan struct{})}
}

var _ cache.ResourceEventHandler = (*ledger)(nil)

func (l *ledger) OnAdd(obj any, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		l.problemLocked("an add of %T", obj)
		return
	}
	key := pod.Namespace + "/" + pod.Name
	rv, waiting := l.stored[key]
	switch {
	case key == l.marker:
		l.closeLocked(l.marked, "added")
	case waiting && rv == pod.ResourceVersion:
		delete(l.stored, key)
		l.replayed++
	case waiting:
		l.problemLocked("%s came at %s, but was stored at %s", key, pod.ResourceVersion, rv)
	default:
		l.got.created = append(l.got.created, key)
	}
}

// kube-apiserver deletes a pod in two writes, of which the first sets the deletionTimestamp. OnUpdate does not count
// that write as a change.
func (l *ledger) OnUpdate(before, after any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok1 := before.(*corev1.Pod)
	is, ok2 := after.(*corev1.Pod)
	switch {
	case !ok1 || !ok2:
		l.problemLocked("an update from %T to %T", before, after)
	case was.ResourceVersion == is.ResourceVersion:
		l.problemLocked("an update of %s that changes nothing", is.Name)
	case is.DeletionTimestamp != nil:
		l.deleting = append(l.deleting, is.Namespace+"/"+is.Name)
	default:
		l.got.updated = append(l.got.updated, is.Namespace+"/"+is.Name)
	}
}

func (l *ledger) OnDelete(obj any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || len(pod.Spec.Containers) == 0 {
		l.problemLocked("a delete without the last state: %T", obj)
		return
	}
	key := pod.Namespace + "/" + pod.Name
	if key == l.marker {
		l.closeLocked(l.unmarked, "deleted")
		return
	}
	l.got.deleted = append(l.got.deleted, key)
}

func (l *ledger) closeLocked(c chan struct{}, what string) {
	select {
	case <-c:
		l.problemLocked("%s was %s twice", l.marker, what)
	default:
		close(c)
	}
}

func (l *ledger) problemLocked(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *ledger) compare(replayed int, want changes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, problem := range l.problems {
		errs = append(errs, errors.New(problem))
	}
	if l.replayed != replayed || len(l.stored) > 0 {
		errs = append(errs, fmt.Errorf("%d stored pods were replayed, not %d", l.replayed, replayed))
	}
	for _, key := range l.deleting {
		if key != l.marker && !slices.Contains(want.deleted, key) {
			errs = append(errs, fmt.Errorf("the deletion of %s was announced, but nobody deleted it", key))
		}
	}
	got := changes{
		created: slices.Clone(l.got.created), updated: slices.Clone(l.got.updated), deleted: slices.Clone(l.got.deleted),
	}.sort()
	for _, kind := range []struct {
		name      string
		got, want []string
	}{{"adds", got.created, want.created}, {"updates", got.updated, want.updated},
		{"deletes", got.deleted, want.deleted}} {
		if !slices.Equal(kind.got, kind.want) {
			errs = append(errs, fmt.Errorf("%s of %v, but what happened is %v", kind.name, kind.got, kind.want))
		}
	}
	return errors.Join(errs...)
}
