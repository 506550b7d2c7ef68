package informer_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// server is an API server for pods without a network, so that it works in a synctest bubble. It keeps past events for
// watches, lists in pages in key order, and sends a bookmark two seconds before a watch times out, like a real API
// server.
type server struct {
	mu        sync.Mutex
	rv        int
	pods      map[string]*corev1.Pod
	history   []watch.Event
	compacted int // compacted is the resourceVersion before which watches get 410
	watches   map[*stream]bool
	uids      int
	// fail, if not nil, is called for each request, which fails with the returned error.
	fail      func(verb string, o metav1.ListOptions) error
	lists     int                        // lists counts the lists, without probes of one object
	pages     map[string]*corev1.PodList // pages has the remaining pods of paged lists, by continue token
	resumedAt []string                   // resumedAt has the resourceVersions from which watches have started
	pageDelay time.Duration              // pageDelay is the delay of a list's second and later pages; set before use
	// log has the calls that a handler should get for the server's changes.
	log []string
	// body is added to the spec, and annotation to the metadata, of pods that are written, to enlarge them.
	body       string
	annotation string
	silent     bool   // silent means that changes cause no events
	atPage     func() // atPage is called before the second and each later page of a list; set before use
}

func newServer() *server {
	return &server{rv: 100, pods: map[string]*corev1.Pod{}, watches: map[*stream]bool{},
		pages: map[string]*corev1.PodList{}}
}

// write creates or updates a pod. The label value distinguishes the pod's states.
func (s *server) write(key, value string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	ns, name, _ := strings.Cut(key, "/")
	old := s.pods[key]
	s.rv++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, ResourceVersion: strconv.Itoa(s.rv), Labels: map[string]string{"value": value},
	}}
	if s.body != "" {
		pod.Spec.NodeName = s.body
	}
	if s.annotation != "" {
		pod.Annotations = map[string]string{"a": s.annotation}
	}
	typ := watch.Modified
	if old == nil {
		typ = watch.Added
		s.uids++
		pod.UID = types.UID(fmt.Sprintf("uid-%d", s.uids))
	} else {
		pod.UID = old.UID
	}
	if old == nil {
		s.log = append(s.log, "add "+describe(pod))
	} else {
		s.log = append(s.log, "update "+describe(old)+" to "+describe(pod))
	}
	s.pods[key] = pod
	s.sendLocked(watch.Event{Type: typ, Object: pod})
	return pod
}

func (s *server) delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pods[key]
	if old == nil {
		return
	}
	s.rv++
	last := old.DeepCopy()
	last.ResourceVersion = strconv.Itoa(s.rv)
	delete(s.pods, key)
	s.log = append(s.log, "delete "+describe(last))
	s.sendLocked(watch.Event{Type: watch.Deleted, Object: last})
}

func (s *server) sendLocked(e watch.Event) {
	if s.silent {
		return
	}
	s.history = append(s.history, e)
	for w := range s.watches {
		w.send(e)
	}
}

// compact makes the server forget past events, so that older watches get 410, and ends all watches.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.history = s.rv, nil
	clear(s.pages)
	s.disconnectLocked()
}

func (s *server) setSilent(silent bool) {
	s.mu.Lock()
	s.silent = silent
	s.mu.Unlock()
}

func (s *server) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disconnectLocked()
}

func (s *server) disconnectLocked() {
	for w := range s.watches {
		w.end()
	}
}

func (s *server) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		w.send(s.bookmarkLocked())
	}
}

func (s *server) bookmarkLocked() watch.Event {
	return watch.Event{Type: watch.Bookmark,
		Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.rv)}}}
}

// setFail sets a function that is called for each request, which fails with its error. nil fails no request.
func (s *server) setFail(fn func(verb string, o metav1.ListOptions) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fn
}

// requests returns the number of lists, and the resourceVersions of the watches since the last call.
func (s *server) requests() (lists int, watches []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.resumedAt = nil }()
	return s.lists, s.resumedAt
}

// takeLog returns the expected calls of a handler since the last takeLog.
func (s *server) takeLog() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.log = nil }()
	return s.log
}

// state returns "key@resourceVersion=value" of every pod, sorted.
func (s *server) state() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		out = append(out, describe(p))
	}
	slices.Sort(out)
	return out
}

func describe(obj any) string {
	p := obj.(*corev1.Pod)
	return fmt.Sprintf("%s/%s@%s=%s", p.Namespace, p.Name, p.ResourceVersion, p.Labels["value"])
}

func (s *server) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s *server) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue != "" {
		select {
		case <-time.After(s.pageDelay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if s.atPage != nil {
			s.atPage()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail("list", o); err != nil {
			return nil, err
		}
	}
	var all *corev1.PodList
	if o.Continue != "" {
		if all = s.pages[o.Continue]; all == nil {
			return nil, apierrors.NewResourceExpired("the continue token is too old")
		}
	} else {
		if o.Limit != 1 {
			s.lists++
		}
		all = s.snapshotLocked(o.FieldSelector)
	}
	if o.Limit == 0 || int64(len(all.Items)) <= o.Limit {
		return all, nil
	}
	out := &corev1.PodList{ListMeta: all.ListMeta, Items: all.Items[:o.Limit]}
	out.Continue = fmt.Sprintf("%s-%d-%d", all.ResourceVersion, len(s.pages), len(all.Items))
	s.pages[out.Continue] = &corev1.PodList{ListMeta: all.ListMeta, Items: all.Items[o.Limit:]}
	return out, nil
}

// snapshotLocked lists the pods in key order. Of the field selectors it supports only the reflector's look-ups by name.
func (s *server) snapshotLocked(fields string) *corev1.PodList {
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.rv)}}
	keys := []string{}
	for key, p := range s.pods {
		if fields == "" || strings.Contains(fields, "metadata.name="+p.Name) &&
			(!strings.Contains(fields, "metadata.namespace=") || strings.Contains(fields, "metadata.namespace="+p.Namespace)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		l.Items = append(l.Items, *s.pods[key])
	}
	return l
}

func (s *server) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

func (s *server) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail("watch", o); err != nil {
			return nil, err
		}
	}
	from, err := strconv.Atoi(o.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest("this server resumes watches only")
	}
	if from < s.compacted {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	s.resumedAt = append(s.resumedAt, o.ResourceVersion)
	w := newStream(s)
	for _, e := range s.history {
		if rv, _ := strconv.Atoi(e.Object.(*corev1.Pod).ResourceVersion); rv > from {
			w.send(e)
		}
	}
	s.watches[w] = true
	if o.TimeoutSeconds != nil {
		w.expire(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	return w, nil
}

// IsWatchListSemanticsUnSupported tells client-go's reflector to list instead.
func (s *server) IsWatchListSemanticsUnSupported() bool { return true }

type stream struct {
	s      *server
	result chan watch.Event
	done   chan struct{}
	over   chan struct{}

	mu     sync.Mutex
	events []watch.Event
	wake   chan struct{}
	once   sync.Once
}

func newStream(s *server) *stream {
	w := &stream{s: s, result: make(chan watch.Event), done: make(chan struct{}), over: make(chan struct{}),
		wake: make(chan struct{}, 1)}
	go w.run()
	return w
}

func (w *stream) send(e watch.Event) {
	w.mu.Lock()
	w.events = append(w.events, watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()})
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *stream) run() {
	defer close(w.over)
	defer close(w.result)
	for {
		w.mu.Lock()
		events := w.events
		w.events = nil
		w.mu.Unlock()
		for _, e := range events {
			select {
			case w.result <- e:
			case <-w.done:
				return
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.wake:
		case <-w.done:
			return
		}
	}
}

// expire sends a bookmark two seconds before the watch times out, and then ends the watch.
func (w *stream) expire(timeout time.Duration) {
	go func() {
		wait := func(d time.Duration) bool {
			t := time.NewTimer(d)
			defer t.Stop()
			select {
			case <-t.C:
				return true
			case <-w.done:
				return false
			}
		}
		if !wait(max(timeout-2*time.Second, 0)) {
			return
		}
		w.s.mu.Lock()
		w.send(w.s.bookmarkLocked())
		w.s.mu.Unlock()
		if wait(2 * time.Second) {
			w.Stop()
		}
	}()
}

func (w *stream) end() {
	w.once.Do(func() { close(w.done) })
	delete(w.s.watches, w)
}

func (w *stream) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.end()
}

func (w *stream) ResultChan() <-chan watch.Event { return w.result }
