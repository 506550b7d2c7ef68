package field

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// Reports returns the trials of bug reports about informers, by the name of the report. docs/field-reports.md describes
// the reports.
func Reports() map[string]func(*World) {
	return map[string]func(*World){
		"opentelemetry-collector-contrib#48986": addressMissingInDelete,
		"opentelemetry-collector-contrib#42978": addressUsedAgain,
		"opentelemetry-collector-contrib#48398": containerRestarted,
		"kine#568":                              bookmarkOfZero,
		"kubewarden#612":                        watchFromTheBeginning,
		"kubeedge#3620":                         addedTwice,
		"kine#391":                              listLacksAnObject,
		"openyurt#426":                          bodyTooShort,
		"kubernetes#133788":                     listerUnderChanges,
		"kube-state-metrics#942":                severalNamespaces,
		"cloud-on-k8s#4956":                     serverBehind,
		"argo-cd#29042":                         deletionIsLost,
		"argo-cd#29449":                         goroutinesOfEndedWatches,
		"kubernetes#100878":                     tooManyRequests,
		"rancher#55606":                         noEndOfInitialEvents,
		"kube-state-metrics#694":                longOutage,
		"controller-runtime#1938":               manyStreams,
	}
}

// addressMissingInDelete repeats this defect: an index keeps the address of a deleted pod, because the DELETED event
// has no address.
func addressMissingInDelete(w *World) {
	w.proxy.set(changes{event: func(e event) []event {
		if e.Type == "DELETED" {
			delete(e.Object["metadata"].(map[string]any), "annotations")
		}
		return []event{e}
	}})
	r := w.start(nil)
	w.create(pod("a", "x", "10.0.0.1", "c1"))
	r.saw("add a/x=10.0.0.1")
	w.delete("a", "x")
	r.saw("delete a/x=")
	for index, value := range map[string]string{"ip": "10.0.0.1", "container": "c1"} {
		if left := r.found(index, value); len(left) > 0 {
			w.Errorf("index %s still has %q", index, left)
		}
	}
}

// addressUsedAgain repeats this defect: the deletion of a pod removes the index entry of a newer pod with the same
// address.
func addressUsedAgain(w *World) {
	w.create(pod("a", "x", "10.0.0.1", "c1"))
	r := w.start(nil)
	w.create(pod("a", "y", "10.0.0.1", "c2"))
	r.saw("add a/y=10.0.0.1")
	w.delete("a", "x")
	r.saw("delete a/x=10.0.0.1")
	if got := r.found("ip", "10.0.0.1"); len(got) != 1 || got[0] != "a/y" {
		w.Errorf("the address leads to %q", got)
	}
}

// containerRestarted repeats this defect: an index keeps an old container of a pod after a change and a restart.
func containerRestarted(w *World) {
	w.create(pod("a", "x", "10.0.0.1", "c1"))
	for n := range 3 {
		r := w.start(nil)
		before, after := fmt.Sprintf("c%d", n+1), fmt.Sprintf("c%d", n+2)
		w.update(pod("a", "x", "10.0.0.1", after))
		w.eventually(func() bool { return len(r.found("container", after)) == 1 }, func() string { return "no update" })
		if left := r.found("container", before); len(left) > 0 {
			w.Errorf("the old container leads to %q", left)
		}
		r.stop()
	}
}

// bookmarkOfZero repeats this defect: an informer watches from a bookmark's resourceVersion that names no state.
func bookmarkOfZero(w *World) {
	w.create(pod("a", "x", "1", ""))
	w.proxy.set(changes{event: func(e event) []event {
		sent := []event{e}
		for _, rv := range []string{"0", "", "1"} {
			sent = append(sent, event{"BOOKMARK", map[string]any{"kind": "Pod", "apiVersion": "v1",
				"metadata": map[string]any{"resourceVersion": rv}}})
		}
		return sent
	}})
	r := w.start(nil)
	for n := range 3 {
		w.update(pod("a", "x", fmt.Sprint(n+2), ""))
		r.saw(fmt.Sprintf("update a/x=%d", n+2))
		watches := len(w.proxy.asked())
		w.proxy.CloseClientConnections()
		w.eventually(func() bool { return len(w.proxy.asked()) > watches }, func() string { return "no watch" })
	}
	for _, rv := range w.proxy.asked() {
		if rv == "0" || rv == "" || rv == "1" {
			w.Errorf("a watch from %q", rv)
		}
	}
	if s := r.Status().Reflector; s.Lists != 1 {
		w.Errorf("%d lists: %v", s.Lists, s.Relists)
	}
	r.stop()
	r = w.start(nil)
	r.saw("add a/x=4")
}

// watchFromTheBeginning repeats this defect: a server ignores the resourceVersion of a watch and sends all objects
// first.
func watchFromTheBeginning(w *World) {
	for n := range 20 {
		w.create(pod("a", fmt.Sprintf("x%02d", n), "0", ""))
	}
	w.proxy.set(changes{ask: func(query url.Values) {
		if query.Get("watch") != "" {
			query.Del("resourceVersion")
		}
	}})
	r := w.start(nil)
	for n := range 3 {
		w.update(pod("a", "x19", fmt.Sprint(n+1), ""))
		r.saw(fmt.Sprintf("update a/x19=%d", n+1)) // this change shows that the watch is open
		w.delete("a", fmt.Sprintf("x%02d", n))
		r.saw(fmt.Sprintf("delete a/x%02d=0", n))
		w.proxy.CloseClientConnections()
	}
	w.update(pod("a", "x19", "4", ""))
	r.saw("update a/x19=4")
	if s := r.Status().Reflector; s.Lists != 1 || r.Status().Objects != 17 {
		w.Errorf("%d objects, %d lists: %v", r.Status().Objects, s.Lists, s.Relists)
	}
	for n := range 20 {
		if calls := r.calls.count(fmt.Sprintf("add a/x%02d=0", n)); calls != 1 {
			w.Errorf("%d calls of OnAdd for x%02d", calls, n)
		}
	}
}

// addedTwice repeats this defect: an update that arrives as ADDED is handled as a new object.
func addedTwice(w *World) {
	w.create(pod("a", "x", "1", ""))
	w.proxy.set(changes{event: func(e event) []event {
		if e.Type == "MODIFIED" {
			e.Type = "ADDED"
		}
		return []event{e}
	}})
	r := w.start(nil)
	w.update(pod("a", "x", "2", ""))
	r.saw("update a/x=2")
	r.stop()
	if r = w.start(nil); len(r.found("ip", "2")) != 1 || len(r.found("ip", "1")) != 0 {
		w.Error("the store has the old state")
	}
}

// listLacksAnObject repeats this defect: a list lacks an object older than its resourceVersion, so no event delivers
// the object.
func listLacksAnObject(w *World) {
	w.create(pod("a", "x", "1", ""))
	w.create(pod("a", "y", "1", ""))
	w.proxy.set(changes{list: func(list map[string]any) { list["items"] = list["items"].([]any)[1:] }})
	r := w.start(nil)
	w.proxy.set(changes{})
	w.eventually(func() bool { return r.Status().Source == informer.Live }, // a real server may have closed the connection
		func() string { return fmt.Sprintf("not live: %+v", r.Status()) })
	if _, err := r.Audit(w.Context()); err != nil {
		w.Fatal(err)
	}
	r.saw("add a/x=1")
	r.stop()
	w.create(pod("b", "x", "1", ""))
	w.proxy.set(changes{list: func(list map[string]any) { list["items"] = list["items"].([]any)[1:] }})
	w.server.LoseHistory(w.T)
	r = w.start(nil)
	r.stop()
	w.proxy.set(changes{})
	r = w.start(nil)
	r.saw("add a/x=1")
}

// bodyTooShort repeats this defect: a proxy truncates a list but keeps its Content-Length.
func bodyTooShort(w *World) {
	for n := range 5 {
		w.create(pod("a", fmt.Sprintf("x%d", n), "1", ""))
	}
	r := w.start(nil)
	r.stop()
	w.delete("a", "x0")
	w.server.LoseHistory(w.T)
	var lists atomic.Int32
	w.proxy.set(changes{cut: func(body []byte) []byte {
		if lists.Add(1) > 3 {
			return body
		}
		return body[:len(body)-20]
	}})
	r = w.start(nil)
	r.saw("delete a/x0=1")
	if n := r.Status().Objects; n != 4 || lists.Load() <= 3 {
		w.Errorf("%d objects after %d answers", n, lists.Load())
	}
}

// listerUnderChanges repeats this defect: a lister returns nil objects during concurrent changes.
func listerUnderChanges(w *World) {
	r := w.start(nil)
	lister := corelisters.NewPodLister(r.GetIndexer())
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				all, err := lister.Pods("a").List(labels.Everything())
				if err != nil || slices.Contains(all, nil) {
					w.Errorf("%v, %v", all, err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := range 150 {
		w.create(pod("a", fmt.Sprintf("x%d", n), "1", ""))
		if n >= 20 {
			w.delete("a", fmt.Sprintf("x%d", n-20))
		}
	}
	w.create(pod("b", "last", "1", ""))
	r.saw("add b/last=1")
	close(done)
	wg.Wait()
}

// severalNamespaces repeats this defect: informers of several namespaces delete each other's objects.
func severalNamespaces(w *World) {
	for n := range 10 {
		w.create(pod(fmt.Sprintf("n%d", n%2), fmt.Sprintf("x%d", n), "1", ""))
	}
	for range 2 {
		st, err := store.Open(w.path, store.Options{})
		w.must(err)
		for n := range 2 {
			namespace := fmt.Sprintf("n%d", n)
			r := w.startOn(st, w.config, namespace, nil)
			w.eventually(r.HasSynced, func() string { return "not synced" })
			if keys := r.GetIndexer().ListKeys(); len(keys) != 5 || !strings.HasPrefix(keys[0], namespace+"/") {
				w.Errorf("%s: %q", namespace, keys)
			}
			defer r.stop()
			if n == 1 {
				r.stop()
			}
		}
		w.must(st.Close())
	}
}

// serverBehind repeats this defect: after a restart, a list at resourceVersion=0 returns old state from the cache of an
// API server that lags behind.
func serverBehind(w *World) {
	w.create(pod("a", "x", "1", ""))
	r := w.start(nil)
	r.stop()
	w.update(pod("a", "x", "2", ""))
	r = w.start(nil)
	r.saw("update a/x=2")
	r.stop()
	w.server.LoseHistory(w.T)
	w.start(nil)
	for _, query := range w.proxy.all() {
		if strings.Contains(query+"&", "resourceVersion=0&") {
			w.Errorf("%s may be answered with an old state", query)
		}
	}
}

// deletionIsLost repeats this defect: the server never sends the DELETED event of an object.
func deletionIsLost(w *World) {
	w.create(pod("a", "x", "1", ""))
	w.proxy.set(changes{event: func(e event) []event {
		if e.Type == "DELETED" {
			return nil
		}
		return []event{e}
	}})
	r := w.start(func(o *informer.Options) { o.AuditEvery = 200 * time.Millisecond })
	w.delete("a", "x")
	w.create(pod("a", "y", "1", ""))
	r.saw("add a/y=1")
	// An audit waits until the watch has reached the resourceVersion of the audit's list. Changes advance the watch sooner
	// than a bookmark.
	for n := 2; n < 100 && !r.calls.has("delete a/x=1"); n++ {
		w.update(pod("a", "y", strconv.Itoa(n), ""))
		time.Sleep(500 * time.Millisecond)
	}
	r.saw("delete a/x=1")
}

// goroutinesOfEndedWatches repeats this defect: an ended watch leaves a goroutine or a connection.
func goroutinesOfEndedWatches(w *World) {
	w.create(pod("a", "x", "1", ""))
	r := w.start(nil)
	before := 0
	// The next watch has a timeout of one second, so the server ends it.
	w.proxy.set(changes{ask: func(query url.Values) { query.Set("timeoutSeconds", "1") }})
	for n := range 4 {
		watches := len(w.proxy.asked())
		if n%2 == 0 {
			w.proxy.CloseClientConnections()
		}
		w.eventually(func() bool { return len(w.proxy.asked()) > watches }, func() string { return "no watch" })
		if n == 1 {
			before = runtime.NumGoroutine()
		}
	}
	r.saw("add a/x=1")
	w.eventually(func() bool { return runtime.NumGoroutine() <= before+3 }, func() string {
		return fmt.Sprintf("%d goroutines, %d before", runtime.NumGoroutine(), before)
	})
}

// tooManyRequests repeats this defect: an informer lists because its watch was refused with 429.
func tooManyRequests(w *World) {
	w.create(pod("a", "x", "1", ""))
	r := w.start(nil)
	var refused atomic.Int32
	w.proxy.set(changes{refuse: func(out http.ResponseWriter, q *http.Request) bool {
		if !q.URL.Query().Has("watch") || refused.Load() == 3 {
			return false
		}
		refused.Add(1)
		out.Header().Set("Retry-After", "1")
		http.Error(out, "too many requests, please try again later", http.StatusTooManyRequests)
		return true
	}})
	w.proxy.CloseClientConnections()
	w.update(pod("a", "x", "2", ""))
	r.saw("update a/x=2")
	if s := r.Status().Reflector; s.Lists != 1 || refused.Load() != 3 {
		w.Errorf("%d refused watches, %d lists: %v", refused.Load(), s.Lists, s.Relists)
	}
}

// noEndOfInitialEvents repeats this defect: a streamed list (WatchList) never ends, because a proxy drops its final
// bookmark.
func noEndOfInitialEvents(w *World) {
	w.create(pod("a", "x", "1", ""))
	w.proxy.set(changes{event: func(e event) []event {
		if e.Type == "BOOKMARK" {
			return nil
		}
		return []event{e}
	}})
	r := w.start(nil)
	r.saw("add a/x=1")
	r.stop()
	w.update(pod("a", "x", "2", ""))
	r = w.start(nil)
	r.saw("update a/x=2")
	for _, query := range w.proxy.all() {
		if strings.Contains(query, "sendInitialEvents=true") {
			w.Errorf("%s may never be answered to the end", query)
		}
	}
}
