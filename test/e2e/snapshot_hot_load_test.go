package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// The load of TestHotSnapshot: its writes per second, its number of concurrent writers, and its number of objects.
const (
	hotRate    = 1000
	hotWriters = 50
	hotObjects = 2000
)

type hotKind struct {
	schema.GroupVersionResource
	ns     string
	client func(kubernetes.Interface) rest.Interface
	create func(metav1.ObjectMeta) runtime.Object
	touch  func(obj runtime.Object, n int)
}

// leasesOf returns Leases: the small objects that large clusters write most often.
func leasesOf(ns string) hotKind {
	return hotKind{
		GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"), ns: ns,
		client: func(c kubernetes.Interface) rest.Interface { return c.CoordinationV1().RESTClient() },
		create: func(m metav1.ObjectMeta) runtime.Object { return &coordinationv1.Lease{ObjectMeta: m} },
		touch: func(obj runtime.Object, _ int) {
			l := obj.(*coordinationv1.Lease)
			l.Spec.RenewTime = new(metav1.NowMicro())
			l.ManagedFields = []metav1.ManagedFieldsEntry{{}} // makes the server drop managed fields
		},
	}
}

func configMapsOf(ns string) hotKind {
	return hotKind{
		GroupVersionResource: configMaps, ns: ns,
		client: func(c kubernetes.Interface) rest.Interface { return c.CoreV1().RESTClient() },
		create: func(m metav1.ObjectMeta) runtime.Object { return &corev1.ConfigMap{ObjectMeta: m} },
		touch: func(obj runtime.Object, n int) {
			obj.(*corev1.ConfigMap).Data = map[string]string{"n": fmt.Sprint(n)}
		},
	}
}

// hotLoad writes objects to the server at a high rate, over protobuf. No object has two writers.
type hotLoad struct {
	kind   hotKind
	source source
	client rest.Interface
	writes atomic.Int64
	last   []runtime.Object // latest answer for each object; only the object's writer uses it
}

func newHotLoad(t *testing.T, cfg *rest.Config, k hotKind) *hotLoad {
	t.Helper()
	client := func(userAgent string) rest.Interface {
		cfg := rest.CopyConfig(cfg)
		cfg.ContentType, cfg.UserAgent = runtime.ContentTypeProtobuf, userAgent
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return k.client(c)
	}
	l := &hotLoad{kind: k, client: client(writer), source: source{
		identity: entry.Identity{GroupVersionResource: k.GroupVersionResource, Namespace: k.ns, Representation: entry.Typed},
		example:  k.create(metav1.ObjectMeta{}),
		lw:       cache.NewFilteredListWatchFromClient(client(cfg.UserAgent), k.Resource, k.ns, func(*metav1.ListOptions) {}),
	}, last: make([]runtime.Object, hotObjects)}
	inParallelBy(t, hotWriters, names("hot", 0, hotObjects), func(ctx context.Context, name string) error {
		number, err := strconv.Atoi(name[len(name)-5:])
		if err == nil {
			l.last[number], err = l.create(ctx, name)
		}
		return err
	})
	return l
}

// start starts the writers. stop ends them and describes the achieved rate.
func (l *hotLoad) start(t *testing.T) (stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	begun := time.Now()
	for n := range hotWriters {
		wg.Go(func() {
			if err := l.write(ctx, n); err != nil {
				t.Error("writing:", err)
			}
		})
	}
	end := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(end)
	return func() string {
		end()
		took := time.Since(begun)
		rate := float64(l.writes.Load()) / took.Seconds()
		text := fmt.Sprintf("%d writes in %s: %.0f/s", l.writes.Load(), took.Round(10*time.Millisecond), rate)
		if rate < hotRate*0.95 {
			return fmt.Sprintf("THE TARGET OF %d/s WAS NOT REACHED: %s", hotRate, text)
		}
		return text
	}
}

// write updates the objects of one writer in turn, and deletes and re-creates every twentieth. After a delay it writes
// faster, until it has caught up with the planned rate.
func (l *hotLoad) write(ctx context.Context, writer int) error {
	begun := time.Now().Add(time.Duration(writer) * time.Second / hotRate)
	const turn = time.Second * hotWriters / hotRate
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(begun.Add(time.Duration(n) * turn))):
		}
		// A request in progress is not cancelled, because its outcome would be unknown.
		ctx := context.WithoutCancel(ctx)
		number := writer + n*hotWriters%hotObjects
		if err := l.change(ctx, n, number); err != nil {
			return err
		}
	}
}

func (l *hotLoad) change(ctx context.Context, n, number int) (err error) {
	name, obj := hotName(number), l.last[number]
	if n%20 == 19 { // not the first object, which readers expect to exist
		if err := l.request(ctx, l.client.Delete().Name(name)).Error(); err != nil {
			return err
		}
		l.writes.Add(1)
		obj, err = l.create(ctx, name)
	} else {
		l.kind.touch(obj, n)
		obj, err = l.request(ctx, l.client.Put().Name(name).Body(obj)).Get()
	}
	l.last[number] = obj
	l.writes.Add(1)
	return err
}

func (l *hotLoad) create(ctx context.Context, name string) (runtime.Object, error) {
	obj := l.kind.create(metav1.ObjectMeta{Namespace: l.kind.ns, Name: name})
	return l.request(ctx, l.client.Post().Body(obj)).Get()
}

func (l *hotLoad) request(ctx context.Context, r *rest.Request) rest.Result {
	return r.Namespace(l.kind.ns).Resource(l.kind.Resource).Do(ctx)
}

func hotName(number int) string { return fmt.Sprintf("hot-%05d", number) }
