package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// quietKinds are the resources of the rarely changed collections, which exist in every namespace. All have a watch
// cache: at a restart the watch cache's bookmarks show that all missed events have arrived, which otherwise takes four
// times as long.
var quietKinds = []struct {
	resource string
	list     runtime.Object
	object   func() runtime.Object
}{
	{"endpoints", &corev1.EndpointsList{}, func() runtime.Object { return &corev1.Endpoints{} }}, //nolint:staticcheck // one more kind that the core group has
	{"limitranges", &corev1.LimitRangeList{}, func() runtime.Object { return &corev1.LimitRange{} }},
	{"podtemplates", &corev1.PodTemplateList{}, func() runtime.Object {
		return &corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: pod("", "").Spec}}
	}},
	{"serviceaccounts", &corev1.ServiceAccountList{}, func() runtime.Object { return &corev1.ServiceAccount{} }},
	{"services", &corev1.ServiceList{}, func() runtime.Object {
		return &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
	}},
}

// member is one of many collections. The test repeatedly starts and stops the member's informer.
type member struct {
	source
	name string
	// inf, heard and stop belong to the running informer. They are nil while no informer runs.
	inf       *informer.Informer
	handler   *mirror
	stop      func()
	transform func(any) (any, error)
}

type population struct {
	*cluster
	file   *file
	id     func(context.Context) (string, error)
	busy   *member
	quiet  []*member
	writes atomic.Int64
}

// newPopulation creates three objects per rarely changed collection, and the pods of the busy collection. It starts no
// informer.
func newPopulation(t *testing.T, c *cluster, r manyRun) *population {
	t.Helper()
	w := &population{cluster: c, file: newFile(t), id: requests.KubeSystemUID(c.client.CoreV1().RESTClient())}
	inParallel(t, names("busy", 0, r.pods), func(ctx context.Context, name string) error {
		p := pod(c.ns, name)
		// The annotation makes a filled file larger than an empty file.
		p.Annotations = map[string]string{"padding": strings.Repeat("x", 4<<10)}
		return w.create(ctx, "pods", c.ns, name, p)
	})
	w.busy = &member{name: "pods in " + c.ns, source: source{
		example: &corev1.Pod{}, identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
			Namespace: c.ns},
	}}
	spaces := make([]string, r.namespaces)
	for n := range spaces {
		spaces[n] = fmt.Sprintf("%s-%03d", c.ns, n)
	}
	inParallel(t, spaces, func(ctx context.Context, ns string) error {
		_, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			metav1.CreateOptions{})
		if err != nil {
			return err
		}
		for _, kind := range quietKinds {
			for _, name := range names("quiet", 0, 3) {
				if err := w.create(ctx, kind.resource, ns, name, kind.object()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for _, ns := range spaces {
		for _, kind := range quietKinds {
			id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource(kind.resource), Namespace: ns}
			w.quiet = append(w.quiet, &member{name: kind.resource + " in " + ns,
				source: source{example: kind.object(), identity: id}})
		}
	}
	return w
}

func (w *population) create(ctx context.Context, resource, ns, name string, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	m.SetName(name)
	return w.client.CoreV1().RESTClient().Post().Namespace(ns).Resource(resource).Body(obj).Do(ctx).Error()
}

// touch changes the first object of each rarely changed collection and waits until the collection's handler receives
// the change. It returns the delays.
func (w *population) touch(t *testing.T, quiet []*member, value string) delays {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, value)
	var mu sync.Mutex
	var took delays
	byName, all := map[string]*member{}, make([]string, len(quiet))
	for n, m := range quiet {
		byName[m.name], all[n] = m, m.name
	}
	inParallel(t, all, func(ctx context.Context, name string) error {
		m := byName[name]
		obj := m.example.DeepCopyObject()
		err := w.client.CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(m.identity.Namespace).Resource(
			m.identity.Resource).
			Name("quiet-00000").Body(patch).Do(ctx).Into(obj)
		if err != nil {
			return err
		}
		begun := time.Now()
		for m.handler.version(m.identity.Namespace+"/quiet-00000") != rvOf(obj) {
			if time.Since(begun) > time.Minute {
				return fmt.Errorf("its handler has not heard of RV %s in a minute: %s", rvOf(obj), errText(m.inf.Status().Err))
			}
			time.Sleep(10 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(begun))
		return nil
	})
	return took
}

// keepBusy changes pods of the busy collection from four clients, as fast as they can, until the returned function is
// called.
func (w *population) keepBusy(t *testing.T, pods int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := n; ctx.Err() == nil; i += 4 {
				if err := w.changeBusy(ctx, i%pods); err != nil && ctx.Err() == nil {
					t.Error("writing:", err)
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

func (w *population) changeBusy(ctx context.Context, pod int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, w.writes.Add(1))
	_, err := w.client.CoreV1().Pods(w.ns).Patch(ctx, fmt.Sprintf("busy-%05d", pod), types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

func (w *population) all() []*member { return append([]*member{w.busy}, w.quiet...) }

// start starts the informers of collections without a running informer, and returns once they have synced.
func (w *population) start(t *testing.T, members []*member) {
	t.Helper()
	if w.file.Store == nil {
		w.file.open(t)
	}
	for _, m := range members {
		i, err := informer.New(m.lw, m.example, informer.Options{Store: w.file.Store, Identity: m.identity, ClusterID: w.id,
			TransformVersion: informer.Unversioned})
		if err != nil {
			t.Fatal(err)
		}
		m.inf, m.handler = i, &mirror{versions: map[string]string{}, leak: &leak{}}
		if _, err := i.AddEventHandler(m.handler); err != nil {
			t.Fatal(err)
		}
		if m.transform != nil {
			if err := i.SetTransform(m.transform); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			i.RunWithContext(ctx)
		}()
		m.stop = func() { cancel(); <-done }
		t.Cleanup(m.stop)
	}
	for _, m := range members {
		eventually(t, "HasSynced", func() string {
			if m.inf.HasSynced() {
				return ""
			}
			return m.name + ": " + errText(m.inf.Status().Err)
		})
	}
}

func (w *population) end(members []*member) {
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(m.stop)
	}
	wg.Wait()
	for _, m := range members {
		m.inf, m.handler, m.stop = nil, nil, nil
	}
}

func (w *population) versions(t *testing.T) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	add := func(kind string, list runtime.Object) {
		err := w.client.CoreV1().RESTClient().Get().Resource(kind).Do(t.Context()).Into(list)
		if err == nil {
			err = meta.EachListItem(list, func(obj runtime.Object) error {
				m, err := meta.Accessor(obj)
				if err != nil {
					return err
				}
				in := kind + " in " + m.GetNamespace()
				if out[in] == nil {
					out[in] = map[string]string{}
				}
				out[in][m.GetNamespace()+"/"+m.GetName()] = m.GetResourceVersion()
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("pods", &corev1.PodList{})
	for _, kind := range quietKinds {
		add(kind.resource, kind.list.DeepCopyObject())
	}
	return out
}

func (w *population) converge(t *testing.T) {
	t.Helper()
	want := w.versions(t)
	for _, m := range w.all() {
		eventually(t, m.name, func() string { return m.handler.diff(want[m.name]) })
		held := map[string]string{}
		for _, obj := range m.inf.GetStore().List() {
			held[m.identity.Namespace+"/"+obj.(metav1.Object).GetName()] = versionOf(obj)
		}
		if problem := (&mirror{versions: held}).diff(want[m.name]); problem != "" {
			t.Errorf("%s is held otherwise: %s", m.name, problem)
		}
		eventually(t, m.name, func() string { // after a pause, an informer may have to open its watch again
			if st := m.inf.Status(); st.Err != nil || st.Source != informer.Live {
				return fmt.Sprintf("source %s, error %v", st.Source, st.Err)
			}
			return ""
		})
	}
}

// delays are durations, which String sorts.
type delays []time.Duration

func (d delays) String() string {
	slices.Sort(d)
	return fmt.Sprintf("median %v, longest %v", d[len(d)/2].Round(time.Millisecond), d[len(d)-1].Round(time.Millisecond))
}

// reach sets the client configuration of informers that are started later.
func (w *population) reach(t *testing.T, cfg *rest.Config) {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range w.all() {
		m.source = coreSource(client, m.identity.Resource, m.identity.Namespace, "", m.example)
	}
}

func (w *population) annotate(t *testing.T, pod, key string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"x"}}}`, key)
	if _, err := w.client.CoreV1().Pods(w.ns).Patch(t.Context(), pod, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
