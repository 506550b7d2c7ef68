package informer_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
)

// opaqueServer is a server with resourceVersions that cannot be compared, as some aggregated APIs have. A watch can
// resume from any of them.
type opaqueServer struct{ *server }

const opaquePrefix = "v"

func (s opaqueServer) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s opaqueServer) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := s.server.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	pods := list.(*corev1.PodList).DeepCopy()
	pods.ResourceVersion = opaquePrefix + pods.ResourceVersion
	for i := range pods.Items {
		pods.Items[i].ResourceVersion = opaquePrefix + pods.Items[i].ResourceVersion
	}
	return pods, nil
}

func (s opaqueServer) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

func (s opaqueServer) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.ResourceVersion = strings.TrimPrefix(o.ResourceVersion, opaquePrefix)
	w, err := s.server.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(ev watch.Event) (watch.Event, bool) {
		if pod, ok := ev.Object.(*corev1.Pod); ok {
			pod = pod.DeepCopy()
			pod.ResourceVersion = opaquePrefix + pod.ResourceVersion
			ev.Object = pod
		}
		return ev, true
	}), nil
}

// TestOpaqueVersionsDoNotGoBack checks that a watch with resourceVersions that cannot be compared resumes from its last
// event, as in client-go. Otherwise each reconnect would replay all events since the list, and handlers and readers
// would see old states and deleted objects. The resourceVersion is not stored. Issue 37.
func TestOpaqueVersionsDoNotGoBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		s := opaqueServer{r.srv}
		r.lw = s
		s.write("a/x", "1")
		i := r.open()
		theirs := cache.NewSharedIndexInformer(s, &corev1.Pod{}, 0, cache.Indexers{})
		got, want := &recorder{}, &recorder{}
		if _, err := theirs.AddEventHandler(want); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { theirs.RunWithContext(ctx); close(ended) }()
		r.run(got)
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		wait(time.Second)
		s.write("a/x", "2")
		s.write("a/y", "1")
		s.delete("a/y")
		s.write("a/x", "3")
		wait(time.Second)
		equal(t, "calls", got.take(), want.take())
		wait(12 * time.Minute)
		equal(t, "calls after the reconnect", got.take(), want.take())
		s.write("a/x", "4")
		wait(time.Second)
		equal(t, "calls for the next event", got.take(), want.take())
		st := i.Status()
		if !st.Reflector.NotResumable || st.Reflector.Lists != 1 || st.ResourceVersion != "" || st.Err != nil {
			t.Errorf("status %+v", st)
		}
		cancel()
		<-ended
		r.close()
		// The next run cannot resume, because the resourceVersion is not stored.
		i = r.start()
		if st := i.Status(); st.Reflector.Lists != 1 || st.Source != informer.Live {
			t.Errorf("the next run: %+v", st)
		}
		r.close()
	})
}
