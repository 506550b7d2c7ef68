package informer_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// front is the API server of one of the two compared informers. Both fronts serve the same objects.
type front struct {
	w *world
	// watchList enables sendInitialEvents. watchList, listDelay and pageDelay are set before the front is used.
	watchList            bool
	listDelay, pageDelay time.Duration

	// The mutex of w guards all fields below.
	streams map[*diffStream]bool
	pages   map[string]*corev1.PodList // pages has the pods of a paged list by continue token
	tokens  int
	faults  map[string][]string
	down    string // down is the name of the fault of every request; "" while the server is up
	errors  int    // errors counts the returned errors, and makes their texts unique
	handed  []handed
	lists   []int
}

// handed is an error that the server has returned or sent to its informer.
type handed struct {
	id   int
	how  string
	verb string // verb is list, probe, lookup, watch or watchlist, or event for an error in a watch
}

func newFront(w *world) *front {
	return &front{w: w, streams: map[*diffStream]bool{}, pages: map[string]*corev1.PodList{},
		faults: map[string][]string{}}
}

var faultNames = []string{"refused", "429", "500", "503", "504", "401", "403", "410", "eof"}

func faultError(how string, id int) error {
	text := fmt.Sprintf("fault %d", id)
	switch how {
	case "refused":
		return fmt.Errorf("%s: %w", text, syscall.ECONNREFUSED)
	case "429":
		return apierrors.NewTooManyRequests(text, 1)
	case "500":
		return apierrors.NewInternalError(fmt.Errorf("%s", text))
	case "503":
		return apierrors.NewServiceUnavailable(text)
	case "504":
		return apierrors.NewTimeoutError(text, 1)
	case "401":
		return apierrors.NewUnauthorized(text)
	case "403":
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", fmt.Errorf("%s", text))
	case "410":
		return apierrors.NewResourceExpired(text)
	}
	return fmt.Errorf("%s: %w", text, io.ErrUnexpectedEOF)
}

func (f *front) failLocked(verb, how string) error {
	f.errors++
	f.handed = append(f.handed, handed{id: f.errors, how: how, verb: verb})
	return faultError(how, f.errors)
}

// faultLocked returns the name of the fault that this request must fail with, or "".
func (f *front) faultLocked(verb, of string) (how string) {
	if f.down != "" {
		return f.down
	}
	if next := f.faults[of]; len(next) > 0 {
		f.faults[of] = next[1:]
		return next[0]
	}
	return ""
}

func listVerb(o metav1.ListOptions) string {
	switch {
	case o.FieldSelector != "":
		return "lookup"
	case o.Limit == 1:
		return "probe"
	}
	return "list"
}

func (f *front) List(o metav1.ListOptions) (runtime.Object, error) {
	return f.ListWithContext(context.Background(), o)
}

func (f *front) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	delay := f.listDelay
	if o.Continue != "" {
		delay = f.pageDelay
	}
	if listVerb(o) == "list" {
		if err := take(ctx, delay); err != nil {
			return nil, err
		}
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if how := f.faultLocked(listVerb(o), "list"); how != "" {
		return nil, f.failLocked(listVerb(o), how)
	}
	return f.listLocked(o)
}

func take(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *front) listLocked(o metav1.ListOptions) (runtime.Object, error) {
	all := f.pages[o.Continue]
	switch {
	case o.Continue != "" && all == nil:
		return nil, f.failLocked("list", "410")
	case o.Continue == "":
		all = f.snapshotLocked(o.FieldSelector)
		if listVerb(o) == "list" {
			f.lists = append(f.lists, f.w.rv)
		}
	}
	if o.Limit == 0 || int64(len(all.Items)) <= o.Limit {
		return all.DeepCopy(), nil
	}
	out := &corev1.PodList{ListMeta: all.ListMeta, Items: all.Items[:o.Limit]}
	f.tokens++
	out.Continue = fmt.Sprintf("token-%d", f.tokens)
	f.pages[out.Continue] = &corev1.PodList{ListMeta: all.ListMeta, Items: all.Items[o.Limit:]}
	return out.DeepCopy(), nil
}

// snapshotLocked lists the pods in key order. Of the field selectors it supports only the reflector's look-ups by name.
func (f *front) snapshotLocked(fields string) *corev1.PodList {
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(f.w.rv)}}
	for _, p := range f.w.pods {
		if fields == "" || strings.Contains(fields, "metadata.name="+p.Name) &&
			(p.Namespace == "" || strings.Contains(fields, "metadata.namespace="+p.Namespace)) {
			l.Items = append(l.Items, *p)
		}
	}
	slices.SortFunc(l.Items, func(a, b corev1.Pod) int { return strings.Compare(keyOf(&a), keyOf(&b)) })
	return l
}

func (f *front) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return f.WatchWithContext(context.Background(), o)
}

func (f *front) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	verb := "watch"
	if initial {
		verb = "watchlist"
		if err := take(ctx, f.listDelay); err != nil {
			return nil, err
		}
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	how := f.faultLocked(verb, "watch")
	if how != "" && how != "short" {
		return nil, f.failLocked(verb, how)
	}
	from, err := strconv.Atoi(o.ResourceVersion)
	if !initial && err != nil {
		return nil, apierrors.NewBadRequest("this server resumes watches only")
	}
	if !initial && from < f.w.compacted {
		return nil, f.failLocked(verb, "410")
	}
	s := newDiffStream(f)
	switch {
	case how == "short":
		s.endLocked(false)
		return s, nil
	case initial:
		f.sendInitialLocked(s)
	default:
		for _, h := range f.w.history {
			if h.rv > from {
				s.send(h.event)
			}
		}
	}
	f.streams[s] = true
	if o.TimeoutSeconds != nil {
		s.expire(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	return s, nil
}

func (f *front) sendInitialLocked(s *diffStream) {
	for _, p := range f.snapshotLocked("").Items {
		s.send(watch.Event{Type: watch.Added, Object: &p})
	}
	end := f.w.bookmarkLocked()
	end.Object.(*corev1.Pod).Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	s.send(end)
	f.lists = append(f.lists, f.w.rv)
}

// IsWatchListSemanticsUnSupported tells client-go's reflector to list instead.
func (f *front) IsWatchListSemanticsUnSupported() bool { return !f.watchList }
