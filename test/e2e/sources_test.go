package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// sourceRequests is the maximum number of requests from a start until the sync: two for each of four collections, one
// for the index of schemas, and one per factory for the cluster id.
const sourceRequests = 2*4 + 1 + 2

// TestTwoSources runs a program like external-dns with --source=service --source=pod, with client-go's default rate
// limit. Each of the two sources has its own typed factory on one store, and they share a resource. Their handlers must
// receive the same objects as with client-go's factories. A restart, with and without changes, must list nothing and
// make few requests (issue 38, A.1 and A.3).
func TestTwoSources(t *testing.T) {
	c := newCluster(t, shared)
	w := sourceWorld{cluster: c}
	w.fill(t)
	f := newFile(t)
	starts := []struct {
		name   string
		change func(t *testing.T)
	}{
		{"cold", nil},
		{"unchanged", nil},
		{"changed", w.change},
		{"unchanged again", nil},
	}
	for _, s := range starts {
		if s.change != nil {
			s.change(t)
		}
		agent := t.Name() + "/" + strings.ReplaceAll(s.name, " ", "-")
		theirs := w.run(t, c.Config(agent+"/client-go"), nil)
		ours := w.run(t, c.Config(agent+"/larder"), f)
		t.Logf("%s: Larder %s; client-go %s", s.name, ours, theirs)
		for n, seen := range ours.sources {
			if !maps.Equal(seen, theirs.sources[n]) {
				t.Errorf("%s: the handlers of source %d hold %v, those of client-go %v", s.name, n, seen, theirs.sources[n])
			}
		}
		if s.name != "cold" && (ours.lists > 0 || ours.requests > sourceRequests) {
			t.Errorf("%s: %s, want no list and %d requests at most: %v", s.name, ours, sourceRequests, ours.asked)
		}
	}
}

type sourceWorld struct{ *cluster }

func (w sourceWorld) fill(t *testing.T) {
	t.Helper()
	w.createPods(t, names("pod", 0, 10))
	inParallel(t, names("service", 0, 10), w.createService)
	inParallel(t, names("slice", 0, 10), func(ctx context.Context, name string) error {
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
		slice.Name = name
		_, err := w.client.DiscoveryV1().EndpointSlices(w.ns).Create(ctx, slice, metav1.CreateOptions{})
		return err
	})
	nodes := w.client.CoreV1().Nodes()
	for _, name := range names(w.ns, 0, 3) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			if err := nodes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func (w sourceWorld) createService(ctx context.Context, name string) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
	_, err := w.client.CoreV1().Services(w.ns).Create(ctx, service, metav1.CreateOptions{})
	return err
}

func (w sourceWorld) change(t *testing.T) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"changed":"yes"}}}`)
	w.touchPods(t, names("pod", 0, 1), "yes")
	w.deletePods(t, names("pod", 1, 2))
	w.createPods(t, names("new-pod", 0, 1))
	services := w.client.CoreV1().Services(w.ns)
	_, err := services.Patch(t.Context(), names("service", 0, 1)[0], types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	must(t, services.Delete(t.Context(), names("service", 1, 2)[0], metav1.DeleteOptions{}))
	must(t, w.createService(t.Context(), "new-service"))
	_, err = w.client.DiscoveryV1().EndpointSlices(w.ns).Patch(
		t.Context(), names("slice", 0, 1)[0], types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	_, err = w.client.CoreV1().Nodes().Patch(
		t.Context(), names(w.ns, 0, 1)[0], types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
}

// sourceRun has the duration and requests of a start, and the objects that the handlers of each of the program's
// sources had received at the sync.
type sourceRun struct {
	synced          time.Duration
	requests, lists int
	asked           []*controlplane.Request
	sources         []map[string]string // resourceVersions by kind and name
}

func (r sourceRun) String() string {
	return fmt.Sprintf("%s, %d requests, %d lists", r.synced.Round(time.Millisecond), r.requests, r.lists)
}

// run runs the program until both of its sources have synced. If f is nil, it uses client-go's factories instead of
// Larder's.
func (w sourceWorld) run(t *testing.T, config *rest.Config, f *file) sourceRun {
	t.Helper()
	mark, err := w.Mark()
	must(t, err)
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 0, 0 // client-go's defaults
	begun := time.Now()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	newFactory := func(...runtime.Object) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactory(client, 0)
	}
	if f != nil {
		f.open(t)
		defer f.close(t)
		newFactory = func(of ...runtime.Object) informers.SharedInformerFactory {
			made, err := factory.NewSharedInformerFactory(
				client, 0, factory.Options{Informer: informer.Options{Store: f.Store}}, of...)
			must(t, err)
			return made
		}
	}
	services := newFactory(&corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Pod{}, &corev1.Node{})
	pods := newFactory(&corev1.Pod{}, &corev1.Node{})
	running := []*sourceRunning{
		startSource(t, services, services.Core().V1().Services().Informer(),
			services.Discovery().V1().EndpointSlices().Informer(), services.Core().V1().Pods().Informer(),
			services.Core().V1().Nodes().Informer()),
		startSource(t, pods, pods.Core().V1().Pods().Informer(), pods.Core().V1().Nodes().Informer()),
	}
	r := sourceRun{}
	for _, s := range running {
		s.wait(t)
	}
	r.synced = time.Since(begun)
	asked, err := w.Requests(config.UserAgent, mark)
	must(t, err)
	r.requests, r.asked = len(asked), asked
	for _, q := range asked {
		if q.List() || q.Query.Get("sendInitialEvents") == "true" {
			r.lists++
		}
	}
	for _, s := range running {
		r.sources = append(r.sources, s.end())
	}
	return r
}

type sourceRunning struct {
	factory informers.SharedInformerFactory
	stop    chan struct{}
	synced  []cache.InformerSynced

	mu   sync.Mutex
	held map[string]string // mu guards held
}

func startSource(t *testing.T, f informers.SharedInformerFactory, all ...cache.SharedIndexInformer) *sourceRunning {
	t.Helper()
	s := &sourceRunning{factory: f, stop: make(chan struct{}), held: map[string]string{}}
	for _, i := range all {
		handler, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: s.set, UpdateFunc: func(_, now any) { s.set(now) }, DeleteFunc: s.remove})
		must(t, err)
		s.synced = append(s.synced, handler.HasSynced)
	}
	f.Start(s.stop)
	return s
}

func (s *sourceRunning) wait(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for n, synced := range s.synced {
		for ; !synced(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("handler %d has not synced", n)
			}
		}
	}
}

func (s *sourceRunning) set(obj any) {
	o := obj.(metav1.Object)
	if o.GetNamespace() == metav1.NamespaceDefault {
		return // kube-apiserver itself changes the Service and the EndpointSlice "kubernetes" for a while after its start
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[sourceKey(obj)] = o.GetResourceVersion()
}

func (s *sourceRunning) remove(obj any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	delete(s.held, sourceKey(obj))
}

func sourceKey(obj any) string {
	o := obj.(metav1.Object)
	return fmt.Sprintf("%T %s/%s", obj, o.GetNamespace(), o.GetName())
}

func (s *sourceRunning) end() map[string]string {
	close(s.stop)
	s.factory.Shutdown()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
