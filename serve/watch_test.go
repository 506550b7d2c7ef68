package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/history"
)

func (w *world) churn(n int) {
	w.t.Helper()
	pods := w.admin.CoreV1()
	for i := range n {
		namespace, name := []string{"a", "b"}[rand.IntN(2)], fmt.Sprintf("p%03d", rand.IntN(8))
		p, err := pods.Pods(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			w.create(newPod(namespace, name))
			continue
		case err == nil && rand.IntN(3) == 0:
			err = pods.Pods(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{})
		case err == nil:
			p.Annotations = map[string]string{"change": strconv.Itoa(i)}
			p.Labels["app"] = []string{"p", "q"}[rand.IntN(2)]
			p.Spec.NodeName = fmt.Sprintf("node-%d", rand.IntN(3))
			_, err = pods.Pods(namespace).Update(w.t.Context(), p, metav1.UpdateOptions{})
		}
		must(w.t, err)
	}
}

// noWatchList makes a client believe that the server does not support WatchList.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// TestInformersSeeTheServersState checks that client-go's informers reach the API server's state: with WatchList and
// with LIST, in JSON and protobuf, with and without selectors.
func TestInformersSeeTheServersState(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(10)
	type running struct {
		name      string
		selectors metav1.ListOptions
		namespace string
		informer  cache.SharedIndexInformer
	}
	var all []*running
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		c := rest.CopyConfig(w.config)
		c.ContentType = media
		client, err := kubernetes.NewForConfig(c)
		must(t, err)
		for _, traits := range []any{client, noWatchList{}} {
			for _, r := range []*running{
				{name: "all"}, {name: "namespace", namespace: "a"},
				{name: "labels", selectors: metav1.ListOptions{LabelSelector: "app=p"}},
				{name: "fields", selectors: metav1.ListOptions{FieldSelector: "spec.nodeName=node-1"}},
			} {
				r.name = fmt.Sprintf("%s/%T/%s", media, traits, r.name)
				pods := client.CoreV1().Pods(r.namespace)
				lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
					ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
						o.LabelSelector, o.FieldSelector = r.selectors.LabelSelector, r.selectors.FieldSelector
						return pods.List(ctx, o)
					},
					WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
						o.LabelSelector, o.FieldSelector = r.selectors.LabelSelector, r.selectors.FieldSelector
						return pods.Watch(ctx, o)
					},
				}, traits)
				r.informer = cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{})
				all = append(all, r)
				wg.Go(func() { r.informer.RunWithContext(ctx) })
			}
		}
	}
	w.churn(300)
	w.caughtUp()
	last, err := w.admin.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	final, _ := strconv.Atoi(last.ResourceVersion)
	for _, r := range all {
		want := map[string]string{}
		list, err := w.admin.CoreV1().Pods(r.namespace).List(t.Context(), r.selectors)
		must(t, err)
		for _, p := range list.Items {
			want[p.Namespace+"/"+p.Name] = p.ResourceVersion
		}
		got := map[string]string{}
		eventually(t, func() bool {
			clear(got)
			for _, o := range r.informer.GetStore().List() {
				p := o.(*corev1.Pod)
				got[p.Namespace+"/"+p.Name] = p.ResourceVersion
			}
			return cmp.Equal(want, got)
		}, func() string { return r.name + " at " + strconv.Itoa(final) + ": " + cmp.Diff(want, got) })
	}
}

func TestWatchResumes(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(4)
	list, err := w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	w.churn(100)
	w.caughtUp()
	var want []string
	read := func(client kubernetes.Interface, rv string, n int) (got []string, last string) {
		wt, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv})
		must(t, err)
		defer wt.Stop()
		for e := range wt.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("%s %v", e.Type, e.Object)
			}
			last = p.ResourceVersion
			got = append(got, fmt.Sprintf("%s %s/%s %s", e.Type, p.Namespace, p.Name, last))
			if len(got) == n {
				break
			}
		}
		return got, last
	}
	want, _ = read(w.admin, list.ResourceVersion, 100)
	var got []string
	for rv := list.ResourceVersion; len(got) < 100; {
		var some []string
		some, rv = read(w.client(), rv, 25)
		got = append(got, some...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

// TestNewTimelineEndsWatches checks that a relist ends running watches, and lists whose later pages are requested
// afterwards, with 410.
func TestNewTimelineEndsWatches(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(10)
	page, err := w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 3})
	must(t, err)
	seconds := int64(20)
	wt, err := w.client().CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: page.ResourceVersion,
		TimeoutSeconds: &seconds})
	must(t, err)
	defer wt.Stop()
	w.relist()
	ended := false
	for e := range wt.ResultChan() {
		if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Fatalf("the watch brings %s %v", e.Type, e.Object)
		}
		ended = true
	}
	if !ended {
		t.Error("the watch goes on")
	}
	_, err = w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 3, Continue: page.Continue})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("the next page of a list of before: %v", err)
	}
	rest, err := w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Continue: err.(apierrors.APIStatus).
		Status().ListMeta.Continue})
	if err != nil || len(rest.Items) != 7 {
		t.Fatalf("the rest by the token of the error: %d objects, %v", len(rest.Items), err)
	}
}

func (w *world) relist() {
	w.t.Helper()
	infos, err := w.store.Collections(w.t.Context())
	must(w.t, err)
	c := w.store.Opened(infos[0].Identity)
	info, err := c.Info(w.t.Context())
	must(w.t, err)
	rv, err := strconv.Atoi(info.ResourceVersion)
	must(w.t, err)
	objs, err := c.List(w.t.Context())
	must(w.t, err)
	r, err := c.BeginReplace(w.t.Context(), store.ReplaceOptions{})
	must(w.t, err)
	_, err = r.Page(w.t.Context(), objs)
	must(w.t, err)
	_, err = r.Commit(w.t.Context(), entry.Batch{ResourceVersion: strconv.Itoa(rv + 1)})
	must(w.t, err)
}

// TestWatchResumesAfterRestart checks that a watch without selectors resumes at a resourceVersion from before a restart
// of the mirror. Its events have ascending resourceVersions, lead to the last state of each object, and include
// deletions of objects that the client knew.
func TestWatchResumesAfterRestart(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(6)
	type moment struct {
		rv    string
		known map[string]string
	}
	var moments []moment
	state := func(client kubernetes.Interface) (map[string]string, string) {
		list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		known := map[string]string{}
		for _, p := range list.Items {
			known[p.Namespace+"/"+p.Name] = p.ResourceVersion
		}
		return known, list.ResourceVersion
	}
	for range 20 {
		w.churn(5)
		w.caughtUp()
		known, rv := state(w.client())
		moments = append(moments, moment{rv, known})
	}
	w.close()
	w.churn(5)
	w.start(nil)
	w.caughtUp()
	want, final := state(w.admin)
	var wg sync.WaitGroup
	for _, m := range moments {
		wg.Go(func() {
			got, err := follow(t, w.client(), m.rv, final, m.known)
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Errorf("what a watch from %s leads to (-want +got), at %s: %v\n%s", m.rv, final, err, d)
			}
		})
	}
	wg.Wait()
	wt, err := w.client().CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: moments[0].rv,
		LabelSelector: "app=p"})
	must(t, err)
	defer wt.Stop()
	if e := <-wt.ResultChan(); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("a watch with a selector from before the restart brings %s %v", e.Type, e.Object)
	}
}

// follow applies a watch's events to the objects in known, up to the event with the resourceVersion final.
func follow(
	t *testing.T, c kubernetes.Interface, rv, final string, known map[string]string,
) (map[string]string, error) {
	wt, err := c.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv})
	if err != nil {
		return nil, err
	}
	defer wt.Stop()
	for last := rv; last != final; {
		e := <-wt.ResultChan()
		p, ok := e.Object.(*corev1.Pod)
		if !ok {
			return known, fmt.Errorf("the watch brings %s %v", e.Type, e.Object)
		}
		a, _ := strconv.Atoi(last)
		b, err := strconv.Atoi(p.ResourceVersion)
		if err != nil || a >= b {
			return known, fmt.Errorf("the event %d follows %d", b, a)
		}
		last = p.ResourceVersion
		key := p.Namespace + "/" + p.Name
		if _, there := known[key]; there != (e.Type != watch.Added) {
			return known, fmt.Errorf("%s is %s at %s, and was known: %t", key, e.Type, p.ResourceVersion, there)
		}
		if known[key] = p.ResourceVersion; e.Type == watch.Deleted {
			delete(known, key)
		}
	}
	return known, nil
}

// idle is a connection of an idle watch. It counts flushes, and flushes that come after the write deadline.
type idle struct {
	*httptest.ResponseRecorder
	deadline      time.Time
	flushed, late int
}

func (c *idle) SetWriteDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *idle) FlushError() error {
	if time.Now().After(c.deadline) {
		c.late++
	}
	if c.flushed++; c.flushed > 1000 {
		return errors.New("flushed without end")
	}
	return nil
}

// TestIdleWatch checks that a watch without events flushes seldom, and that its write deadline never passes: over
// HTTP/2 an expired deadline ends even an idle stream.
func TestIdleWatch(t *testing.T) {
	for _, bookmarks := range []string{"", "&allowWatchBookmarks=1"} {
		synctest.Test(t, func(t *testing.T) {
			h, err := serve.New(serve.Store(smallStore(t)), serve.Options{})
			must(t, err)
			defer func() { must(t, h.Close()) }()
			w := &idle{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pods?watch=1&timeoutSeconds=600"+bookmarks, nil))
			if w.flushed > 20 || w.late > 0 || time.Now().After(w.deadline) {
				t.Errorf("%q: %d flushes in ten minutes, %d of them late", bookmarks, w.flushed, w.late)
			}
			if n := strings.Count(w.Body.String(), `"ADDED"`); n != 2 {
				t.Errorf("%q: %d objects were told of: %s", bookmarks, n, w.Body)
			}
		})
	}
}

// TestDeletionWithoutLastState: the history may lack the last state of a deleted object.
func TestDeletionWithoutLastState(t *testing.T) {
	st := smallStore(t)
	c := st.Opened(entry.Identity{GroupVersionResource: podsResource, Representation: entry.Unstructured})
	c.History().Recall([]*history.Event{{Key: "a/gone", RV: 7, Deleted: true, Recalled: true}}, 6, "7")
	h, err := serve.New(serve.Store(st), serve.Options{})
	must(t, err)
	defer func() { must(t, h.Close()) }()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=6", nil))
	var event struct {
		Type   string
		Object metav1.PartialObjectMetadata
	}
	if err := json.Unmarshal(w.Body.Bytes(), &event); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if o := event.Object; event.Type != "DELETED" || o.Kind != "Pod" || o.Name != "gone" || o.ResourceVersion != "7" {
		t.Errorf("the watch brings %s", w.Body)
	}
}

// TestInitialEventsOutlastTheWatch checks that a watch whose timeout passes while the initial state is sent ends
// without an ERROR event, as in kube-apiserver (issue 37).
func TestInitialEventsOutlastTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
		must(t, err)
		defer st.Close()
		listPods(t, openPods(t, st), 700, "11")
		h, err := serve.New(serve.Store(st), serve.Options{})
		must(t, err)
		defer func() { must(t, h.Close()) }()
		w := &onWrite{httptest.NewRecorder(), func() { time.Sleep(5 * time.Second) }} // five seconds are longer than the watch
		h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pods?watch=1&sendInitialEvents=true&"+
			"resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=2", nil))
		body := w.Body.String()
		if strings.Contains(body, `"ERROR"`) || !strings.Contains(body, `"ADDED"`) {
			t.Errorf("the stream ends with %s", body[max(0, len(body)-500):])
		}
	})
}
