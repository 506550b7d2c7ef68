package informer_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// A suffix of a pod's value makes handlers panic or transforms fail.
const (
	panics = "!" // some handlers panic on a value with the suffix panics
	poison = "?" // some transforms fail on a value with the suffix poison
)

// world holds the pods and past events that both servers of a script serve.
type world struct {
	mu        sync.Mutex
	epoch     time.Time
	rv        int
	uids      int
	pods      map[string]*corev1.Pod
	history   []podChange // history has all changes, also those that the servers no longer send
	compacted int         // compacted is the resourceVersion before which watches get 410
	fronts    [2]*front
}

// podChange is one change of a pod. Its field poisoned says that a failing transform refuses the new state.
type podChange struct {
	rv       int
	event    watch.Event
	key      string
	poisoned bool
}

func newWorld() *world {
	return &world{epoch: time.Now(), rv: 100, pods: map[string]*corev1.Pod{}}
}

func (w *world) now() time.Duration { return time.Since(w.epoch) }

func (w *world) write(key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ns, name, ok := strings.Cut(key, "/")
	if !ok {
		ns, name = "", key
	}
	w.rv++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, ResourceVersion: strconv.Itoa(w.rv), Labels: map[string]string{"value": value},
		},
		Spec: corev1.PodSpec{NodeName: "node-" + value, Tolerations: []corev1.Toleration{}},
	}
	typ := watch.Added
	if old := w.pods[key]; old != nil {
		typ, pod.UID = watch.Modified, old.UID
	} else {
		w.uids++
		pod.UID = types.UID(strconv.Itoa(w.uids))
	}
	w.pods[key] = pod
	w.recordLocked(key, watch.Event{Type: typ, Object: pod})
}

func (w *world) delete(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.pods[key]
	if old == nil {
		return
	}
	w.rv++
	last := old.DeepCopy()
	last.ResourceVersion = strconv.Itoa(w.rv)
	delete(w.pods, key)
	w.recordLocked(key, watch.Event{Type: watch.Deleted, Object: last})
}

func (w *world) recordLocked(key string, e watch.Event) {
	value := e.Object.(*corev1.Pod).Labels["value"]
	w.history = append(w.history, podChange{rv: w.rv, event: e, key: key, poisoned: strings.HasSuffix(value, poison)})
	w.sendLocked(e)
}

func (w *world) sendLocked(e watch.Event) {
	for _, f := range w.fronts {
		for s := range f.streams {
			s.send(e)
		}
	}
}

// send sends an event on the open watches. Later watches do not get it.
func (w *world) send(e watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendLocked(e)
}

// other advances the servers' resourceVersion, as a change of another resource does.
func (w *world) other() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rv++
}

func (w *world) bookmark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendLocked(w.bookmarkLocked())
}

func (w *world) bookmarkLocked() watch.Event {
	return watch.Event{Type: watch.Bookmark,
		Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(w.rv)}}}
}

// compact makes the servers forget old events and continue tokens, so that watches and lists get 410.
func (w *world) compact() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compacted = w.rv
	for _, f := range w.fronts {
		clear(f.pages)
	}
}

// poisonedLocked returns the keys of the pods that a failing transform refuses.
func (w *world) poisonedLocked() (keys []string) {
	for key, pod := range w.pods {
		if strings.HasSuffix(pod.Labels["value"], poison) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// state describes every pod as an informer should store it, in key order.
func (w *world) state(transform func(any) (any, error)) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		out = append(out, w.describe(w.pods[key], transform))
	}
	return out
}

func (w *world) describe(obj any, transform func(any) (any, error)) string {
	if transform != nil {
		if t, err := transform(obj.(*corev1.Pod).DeepCopy()); err == nil {
			obj = t
		}
	}
	return describeFully(obj)
}

func describeFully(obj any) string {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Sprintf("%T", obj)
	}
	s := fmt.Sprintf("%s/%s@%s=%s#%s", p.Namespace, p.Name, p.ResourceVersion, p.Labels["value"], p.UID)
	if p.Namespace == "" {
		s = s[1:]
	}
	if p.Spec.NodeName != "node-"+p.Labels["value"] {
		s += "(" + p.Spec.NodeName + ")"
	}
	return s
}
