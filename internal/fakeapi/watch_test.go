package fakeapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func expect(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	ctx := testContext(t)
	for i, line := range want {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatalf("event %d: the watch ended instead of %s", i, line)
			}
			if got := describeEvent(e); got != line {
				t.Fatalf("event %d: %s, not %s", i, got, line)
			}
		case <-ctx.Done():
			t.Fatalf("event %d: nothing came instead of %s", i, line)
		}
	}
}

func describeEvent(e watch.Event) string {
	if e.Type == watch.Error {
		return fmt.Sprintf("ERROR %v", apierrors.FromObject(e.Object))
	}
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return err.Error()
	}
	parts := []string{string(e.Type), m.GetNamespace() + "/" + m.GetName(), m.GetResourceVersion()}
	if m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		parts = append(parts, "end")
	}
	return strings.Join(parts, " ")
}

func TestWatchSelectorTransitions(t *testing.T) {
	for _, contentType := range contentTypes {
		s := start(t, Options{StartRV: 1000}) // the two namespaces are at resourceVersions 1000 and 1001
		ctx := testContext(t)
		yes, no := map[string]string{"app": "x"}, map[string]string{"app": "y"}
		// The pods a and b are at resourceVersions 1002 and 1003.
		must(t, s.Load(podsGVR, pod("default", "a", yes), pod("default", "b", no)))
		w, err := typed(t, s, contentType).CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{
			ResourceVersion: "1003", LabelSelector: "app=x",
		})
		must(t, err)
		update := func(name string, labels map[string]string) {
			_, err := s.Update(podsGVR, pod("default", name, labels))
			must(t, err)
		}
		update("a", no)                                        // the update at 1004: a stops matching the selector
		update("b", map[string]string{"app": "y", "z": "z"})   // the update at 1005: b still does not match
		update("b", yes)                                       // the update at 1006: b begins to match
		update("b", map[string]string{"app": "x", "z": "z"})   // the update at 1007: b changes and still matches
		must(t, s.Delete(podsGVR, "default", "a"))             // the delete at 1008: a, which had stopped matching
		must(t, s.Delete(podsGVR, "default", "b"))             // the delete at 1009: b, which matches
		must(t, s.Load(podsGVR, pod("elsewhere", "c", yes)))   // the pod at 1010 is in another namespace
		must(t, s.Load(configMapsGVR, newConfigMap("d", "d"))) // the write at 1011 is of another resource
		must(t, s.Load(podsGVR, pod("default", "d", yes)))     // the pod at 1012 matches
		expect(t, w, "DELETED default/a 1004", "ADDED default/b 1006", "MODIFIED default/b 1007",
			"DELETED default/b 1009", "ADDED default/d 1012")
		w.Stop()
		if got := s.Counts(podsGVR).SentEvents; got != 5 {
			t.Errorf("%d events counted, not 5", got)
		}
		// A later watch from 1005 receives the same events from the history.
		w, err = typed(t, s, contentType).CoreV1().Pods("").Watch(ctx, metav1.ListOptions{
			ResourceVersion: "1005", LabelSelector: "app=x",
		})
		must(t, err)
		expect(t, w, "ADDED default/b 1006", "MODIFIED default/b 1007", "DELETED default/b 1009",
			"ADDED elsewhere/c 1010", "ADDED default/d 1012")
		w.Stop()
	}
}

func TestDeletedEventHoldsTheLastState(t *testing.T) {
	s := start(t, Options{})
	must(t, s.Load(podsGVR, pod("default", "a", map[string]string{"app": "x"})))
	ctx := testContext(t)
	w, err := typed(t, s, contentProtobuf).CoreV1().Pods("").Watch(ctx,
		metav1.ListOptions{ResourceVersion: s.RV(), LabelSelector: "app=x"})
	must(t, err)
	defer w.Stop()
	changed := pod("default", "a", map[string]string{"app": "y"})
	changed.Spec.NodeName = "node-9"
	_, err = s.Update(podsGVR, changed)
	must(t, err)
	e := <-w.ResultChan()
	m, err := meta.Accessor(e.Object)
	must(t, err)
	if e.Type != watch.Deleted || m.GetLabels()["app"] != "x" || m.GetResourceVersion() != s.RV() {
		t.Errorf("%s with %v at %s; wanted the old labels at %s", e.Type, m.GetLabels(), m.GetResourceVersion(), s.RV())
	}
}

func TestWatchFromTheFutureIsSilent(t *testing.T) {
	s := start(t, Options{})
	ctx := testContext(t)
	pods := typed(t, s, contentJSON).CoreV1().Pods("")
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "5000", AllowWatchBookmarks: true})
	must(t, err)
	defer w.Stop()
	load(t, s, 2)
	s.Bookmark()
	// When a second watch has received the events, the server has also sent them to the first.
	control, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1001", AllowWatchBookmarks: true})
	must(t, err)
	defer control.Stop()
	waitWatches(t, s, 2)
	expect(t, control, "ADDED default/pod-00000 1002", "ADDED default/pod-00001 1003")
	s.Bookmark()
	expect(t, control, "BOOKMARK / 1003")
	select {
	case e := <-w.ResultChan():
		t.Errorf("a watch from the future got %s", describeEvent(e))
	default:
	}
	if got := s.Counts(podsGVR).SentEvents; got != 2 {
		t.Errorf("%d events sent, not the control's 2", got)
	}
}

func TestSendInitialEvents(t *testing.T) {
	yes := true
	for _, contentType := range contentTypes {
		s := start(t, Options{})
		load(t, s, 2) // the pods are at resourceVersions 1002 and 1003
		ctx := testContext(t)
		pods := typed(t, s, contentType).CoreV1().Pods("")
		o := metav1.ListOptions{
			SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		}
		w, err := pods.Watch(ctx, o)
		must(t, err)
		expect(t, w, "ADDED default/pod-00000 1002", "ADDED default/pod-00001 1003", "BOOKMARK / 1003 end")
		must(t, s.Delete(podsGVR, "default", "pod-00000"))
		expect(t, w, "DELETED default/pod-00000 1004")
		w.Stop()
		// A watch whose selector matches no object still receives the bookmark at the end of the initial events.
		o.LabelSelector, o.ResourceVersion = "nothing=matches", "1002"
		w, err = pods.Watch(ctx, o)
		must(t, err)
		expect(t, w, "BOOKMARK / 1004 end")
		w.Stop()
		// The bookmark at the end of the initial events waits until the server has reached the requested
		// resourceVersion.
		o.LabelSelector, o.ResourceVersion = "", "1006"
		w, err = pods.Watch(ctx, o)
		must(t, err)
		expect(t, w, "ADDED default/pod-00001 1003")
		must(t, s.Load(podsGVR, pod("default", "x", nil), pod("default", "y", nil)))
		expect(t, w, "ADDED default/x 1005", "ADDED default/y 1006", "BOOKMARK / 1006 end")
		w.Stop()
		o.ResourceVersionMatch = ""
		if _, err := pods.Watch(ctx, o); !apierrors.IsInvalid(err) {
			t.Errorf("sendInitialEvents without a match gave %v", err)
		}
	}
}

func TestWatchWithoutResourceVersionBeginsWithTheState(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 1)
	for _, rv := range []string{"", "0"} {
		w, err := typed(t, s, contentJSON).CoreV1().Pods("").Watch(testContext(t), metav1.ListOptions{ResourceVersion: rv})
		must(t, err)
		expect(t, w, "ADDED default/pod-00000 1002")
		w.Stop()
	}
}

func TestBookmarks(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 1)
	ctx := testContext(t)
	pods := typed(t, s, contentProtobuf).CoreV1().Pods("")
	with, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002", AllowWatchBookmarks: true})
	must(t, err)
	defer with.Stop()
	without, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002"})
	must(t, err)
	defer without.Stop()
	must(t, s.Load(configMapsGVR, newConfigMap("a", "a"))) // the config map is at resourceVersion 1003
	waitWatches(t, s, 2)
	s.Bookmark()
	expect(t, with, "BOOKMARK / 1003")
	load2 := pod("default", "x", nil)
	must(t, s.Load(podsGVR, load2)) // the pods are at resourceVersion 1004
	expect(t, with, "ADDED default/x 1004")
	expect(t, without, "ADDED default/x 1004")
}

// TestBookmarkBeforeTheEnd checks that the server sends a bookmark before the watch's timeout. From this bookmark
// clients learn that they have all events.
func TestBookmarkBeforeTheEnd(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 1)
	must(t, s.Load(configMapsGVR, newConfigMap("a", "a"))) // the config map is at resourceVersion 1003
	timeout := int64(3)
	pods := typed(t, s, contentJSON).CoreV1().Pods("")
	o := metav1.ListOptions{ResourceVersion: "1002", AllowWatchBookmarks: true, TimeoutSeconds: &timeout}
	w, err := pods.Watch(testContext(t), o)
	must(t, err)
	defer w.Stop()
	o.ResourceVersion = "1003"
	current, err := pods.Watch(testContext(t), o)
	must(t, err)
	defer current.Stop()
	expect(t, w, "BOOKMARK / 1003")
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("%s instead of the end", describeEvent(e))
	}
	if e, ok := <-current.ResultChan(); ok {
		t.Errorf("a watch at the server's RV got %s", describeEvent(e))
	}
}

// TestFirstBookmarkVersion checks that a watch's first bookmark has a newer resourceVersion than its initial events.
func TestFirstBookmarkVersion(t *testing.T) {
	s := New(Options{})
	load(t, s, 3) // the pods are at resourceVersions 1002 to 1004
	for query, want := range map[string]uint64{
		"resourceVersion=1002":                      1004,
		"resourceVersion=1004":                      1004,
		"resourceVersion=2000":                      2000,
		"resourceVersion=0":                         1004,
		"sendInitialEvents=true":                    1004,
		"sendInitialEvents=false&resourceVersion=0": 1004,
	} {
		values, err := url.ParseQuery(query + "&watch=1&resourceVersionMatch=")
		must(t, err)
		if values.Get("sendInitialEvents") != "" {
			values.Set("resourceVersionMatch", "NotOlderThan")
		}
		k := s.kinds[podsGVR]
		o, err := parseListOptions(values, k, gates{watchList: true})
		must(t, err)
		w := &watcher{q: &request{kind: k, options: o}}
		must(t, s.openWatch(w))
		if w.timetable.floor != want {
			t.Errorf("%s: bookmarks above %d, not %d", query, w.timetable.floor, want)
		}
		s.closeWatch(w)
	}
}

func TestTimetable(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for _, c := range []struct {
		timeout time.Duration
		due     []float64
	}{
		{timeout: time.Second},
		{timeout: 2 * time.Second},
		{timeout: 3 * time.Second, due: []float64{1}},
		{timeout: 5 * time.Minute, due: []float64{60, 120, 180, 240, 298}},
	} {
		plan := newTimetable(start, c.timeout)
		var got []float64
		for s := 0.0; s < c.timeout.Seconds(); s += 0.5 {
			if plan.due(at(s)) {
				got = append(got, s)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.due) {
			t.Errorf("%v: bookmarks at %v, not %v", c.timeout, got, c.due)
		}
	}
}

func TestCompactLeavesOpenWatchesAlone(t *testing.T) {
	s := start(t, Options{})
	load(t, s, 1)
	ctx := testContext(t)
	pods := typed(t, s, contentProtobuf).CoreV1().Pods("")
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002"})
	must(t, err)
	defer w.Stop()
	must(t, s.Load(podsGVR, pod("default", "x", nil)))
	s.Compact()
	must(t, s.Load(podsGVR, pod("default", "y", nil)))
	expect(t, w, "ADDED default/x 1003", "ADDED default/y 1004")
	late, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1002"})
	must(t, err)
	defer late.Stop()
	expect(t, late, "ERROR too old resource version: 1002 (1003)")
	exact, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: "1003"})
	must(t, err)
	defer exact.Stop()
	expect(t, exact, "ADDED default/y 1004")
}

func TestHistoryIsBounded(t *testing.T) {
	s := start(t, Options{History: 4})
	load(t, s, 20) // the pods are at resourceVersions 1002 to 1021
	pods := typed(t, s, contentJSON).CoreV1().Pods("")
	w, err := pods.Watch(testContext(t), metav1.ListOptions{ResourceVersion: "1005"})
	must(t, err)
	defer w.Stop()
	e := <-w.ResultChan()
	if !strings.HasPrefix(describeEvent(e), "ERROR too old resource version: 1005 (10") {
		t.Errorf("got %s", describeEvent(e))
	}
}
