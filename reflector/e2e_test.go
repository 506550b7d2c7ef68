package reflector_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/reflector"
)

// live is a reflector on real HTTP. Its tests run in real time: they poll for a result, without fixed sleeps.
type live struct {
	t      *testing.T
	s      *fakeapi.Server
	m      *memory
	o      reflector.Options
	r      *reflector.Reflector
	cancel context.CancelFunc
	done   chan error
	// client is the client of a run whose connections pass through a flakyLink.
	client kubernetes.Interface
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func newLive(t *testing.T, objects int, before ...func(l *live)) *live {
	l := &live{t: t, s: fakeapi.New(fakeapi.Options{}), m: newMemory(),
		o: reflector.Options{PageSize: 20, ExpectedType: &corev1.ConfigMap{}}}
	for _, f := range before {
		f(l)
	}
	for i := range objects {
		l.put(fmt.Sprintf("cm-%03d", i), "1")
	}
	if err := l.s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.s.Stop)
	l.start()
	l.wait("synced and equal", func() bool { return l.m.syncs() > 0 && l.equal() })
	return l
}

func (l *live) start() {
	client := kubernetes.NewForConfigOrDie(l.s.Config())
	lw := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default",
		func(*metav1.ListOptions) {})
	l.startWith(lw)
}

func (l *live) startWith(lw *cache.ListWatch) {
	l.r = reflector.New(lw, l.m, l.o)
	l.m.contradicted = l.r.Contradicted
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.done = make(chan error, 1)
	go func() { l.done <- l.r.Run(ctx) }()
	l.t.Cleanup(l.stop)
}

func (l *live) stop() {
	if l.done == nil {
		return
	}
	l.cancel()
	if err := <-l.done; err != nil {
		l.t.Errorf("Run: %v", err)
	}
	l.done = nil
	if b := l.m.complaints(); len(b) > 0 {
		l.t.Errorf("the sink's contract was broken: %v", b)
	}
}

func (l *live) put(name, value string) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data: map[string]string{"v": value}}
	_, err := l.s.Create(configMaps, cm)
	if apierrors.IsAlreadyExists(err) {
		_, err = l.s.Update(configMaps, cm)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) remove(name string) {
	if err := l.s.Delete(configMaps, "default", name); err != nil {
		l.t.Fatal(err)
	}
}

func (l *live) equal() bool {
	want := map[string]string{}
	for _, u := range l.s.List(configMaps) {
		v, _, _ := unstructured.NestedString(u.Object, "data", "v")
		want[u.GetNamespace()+"/"+u.GetName()] = fmt.Sprintf("%s %s %s", u.GetUID(), u.GetResourceVersion(), v)
	}
	return maps.Equal(want, l.m.state())
}

func (l *live) wait(what string, ok func() bool) {
	l.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			l.t.Fatalf("never %s; status %+v", what, l.r.Status())
		}
	}
}

func (l *live) countersAgree() {
	l.t.Helper()
	st, c := l.r.Status(), l.s.Counts(configMaps)
	if st.Pages != c.Lists || st.Probes != c.Probes || st.Watches != c.Watches {
		l.t.Errorf("status %+v, the server counts %+v", st, c)
	}
}

func TestLiveColdAndResume(t *testing.T) {
	l := newLive(t, 50)
	if st := l.r.Status(); st.Pages != 3 || st.Watches != 1 || st.Resumes != 0 {
		t.Errorf("status %+v", st)
	}
	l.countersAgree()
	l.stop()
	l.m.forget()
	l.s.ResetCounts()
	l.put("cm-001", "2")
	l.remove("cm-002")
	l.put("new", "1")
	l.start()
	l.wait("drained", func() bool { return l.m.syncs() > 0 })
	if !l.equal() {
		t.Error("synced before everything was there")
	}
	l.countersAgree()
	if st := l.r.Status(); st.Lists != 0 || st.Resumes != 1 {
		t.Errorf("status %+v, requests %q", st, l.s.Requests())
	}
	if n := len(l.m.lines()); n != 4 {
		t.Errorf("sink calls %q", l.m.lines())
	}
}

func TestLiveDrainByBookmark(t *testing.T) {
	l := newLive(t, 5)
	l.stop()
	l.m.forget()
	if _, err := l.s.Create(corev1.SchemeGroupVersion.WithResource("secrets"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	l.start()
	l.wait("drained", func() bool { return l.m.syncs() > 0 })
	if st := l.r.Status(); st.Lists != 0 || st.ResourceVersion != l.s.RV() {
		t.Errorf("status %+v, the server is at %s", st, l.s.RV())
	}
}

func TestLiveConnectionBreaks(t *testing.T) {
	for _, how := range []fakeapi.Break{fakeapi.BreakEOF, fakeapi.BreakReset} {
		t.Run(string(how), func(t *testing.T) {
			l := newLive(t, 30)
			l.s.BreakWatches(configMaps, how)
			l.put("cm-001", "2")
			l.remove("cm-002")
			l.wait("equal", l.equal)
			if st := l.r.Status(); len(st.Relists) != 0 || st.Pages != 2 {
				t.Errorf("status %+v", st)
			}
		})
	}
}

func TestLiveServerAway(t *testing.T) {
	l := newLive(t, 30)
	l.s.Stop()
	l.wait("noticed", func() bool { return l.r.Status().Err != nil })
	l.put("cm-001", "2")
	if err := l.s.Start(); err != nil {
		t.Fatal(err)
	}
	l.wait("equal", l.equal)
	l.wait("healthy", func() bool { return l.r.Status().Err == nil })
	if st := l.r.Status(); len(st.Relists) != 0 {
		t.Errorf("status %+v", st)
	}
}

func TestLiveExpired(t *testing.T) {
	l := newLive(t, 50)
	l.m.forget()
	if err := l.s.Restart(); err != nil {
		t.Fatal(err)
	}
	l.put("cm-001", "2")
	l.s.Compact()
	l.wait("synced and equal", func() bool { return l.m.syncs() > 0 && l.equal() })
	st := l.r.Status()
	if n := st.Relists[reflector.ReasonExpired]; n > 1 || len(st.Relists) > n {
		t.Errorf("status %+v", st)
	}
}

func TestLiveRewound(t *testing.T) {
	tests := []struct {
		name   string
		after  int
		reason reflector.Reason
	}{{"behind us", 0, reflector.ReasonAhead}, {"has overtaken us", 20, reflector.ReasonRewound}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLive(t, 30)
			l.stop()
			snap := l.s.Snapshot()
			l.put("lost", "1")
			l.remove("cm-003")
			l.start()
			l.wait("equal", l.equal)
			l.stop()
			l.m.forget()
			if err := l.s.Restore(snap); err != nil {
				t.Fatal(err)
			}
			for i := range tt.after {
				l.put(fmt.Sprintf("cm-%03d", i+10), "2")
			}
			l.start()
			l.wait("synced and equal", func() bool { return l.m.syncs() > 0 && l.equal() })
			if st := l.r.Status(); st.Relists[tt.reason] != 1 || len(st.Relists) != 1 {
				t.Errorf("status %+v", st)
			}
		})
	}
}
