package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/store"
)

// Program is a program with a typed factory: of so many kinds with so many objects each, of which so many change while
// it is down.
type Program struct{ Kinds, Objects, Changes int }

// limits are the rate limits of the programs' clients; QPS -1 is none. Burst is twice QPS, as in client-go's default.
var limits = []float32{5, 20, 50, -1}

// kinds are those that the programs read. None has a controller in kube-apiserver.
var kinds = []struct {
	schema.GroupVersionResource
	kind string
	more map[string]any
}{
	{resourceOf("", "v1", "configmaps"), "ConfigMap", nil},
	{resourceOf("", "v1", "secrets"), "Secret", nil},
	{resourceOf("", "v1", "serviceaccounts"), "ServiceAccount", nil},
	{resourceOf("", "v1", "resourcequotas"), "ResourceQuota", nil},
	{resourceOf("", "v1", "limitranges"), "LimitRange", map[string]any{"spec": map[string]any{"limits": []any{}}}},
	{resourceOf("coordination.k8s.io", "v1", "leases"), "Lease", nil},
	{resourceOf("rbac.authorization.k8s.io", "v1", "roles"), "Role", map[string]any{"rules": []any{}}},
	{resourceOf("networking.k8s.io", "v1", "networkpolicies"), "NetworkPolicy",
		map[string]any{"spec": map[string]any{"podSelector": map[string]any{}}}},
}

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// namespace is that of the programs' objects.
const namespace = "programs"

// programs measures the restarts of programs.
type programs struct {
	config *rest.Config
	client dynamic.Interface
	dir    string
	change int // number of the last change
}

// Programs measures the time from a program's start to HasSynced of all its informers, and the requests that it makes
// until then: with client-go's factory, and with Larder's over its file. Both take turns in one process. It writes a
// table of medians of 15.
func Programs(ctx context.Context, all []Program, dir, command string, out io.Writer) (err error) {
	c, err := cluster.StartReal(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	p := &programs{config: c.Access().Config(), dir: dir}
	if p.client, err = dynamic.NewForConfig(p.config); err != nil {
		return err
	}
	fmt.Fprintf(out, `Restart of a program to HasSynced, typed factory, policy Resumed, medians of %d (%s):

| kinds × objects | changed, of each | QPS | client-go | requests | Larder | requests | Larder / client-go |
|---|---|---|---|---|---|---|---|
`, startRuns, "`"+command+"`")
	for _, one := range all {
		if one.Kinds > len(kinds) {
			return fmt.Errorf("%d kinds: there are %d", one.Kinds, len(kinds))
		}
		if err := p.fill(ctx, one); err != nil {
			return err
		}
		for _, qps := range limits {
			row, err := p.row(ctx, one, qps)
			if err != nil {
				return fmt.Errorf("%+v at %v requests a second: %w", one, qps, err)
			}
			fmt.Fprintln(out, row)
		}
	}
	return nil
}

// fill creates the objects that are missing.
func (p *programs) fill(ctx context.Context, one Program) error {
	ns := object("Namespace", schema.GroupVersion{Version: "v1"}, "", namespace, nil)
	_, err := p.client.Resource(resourceOf("", "v1", "namespaces")).Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, k := range kinds[:one.Kinds] {
		client := p.client.Resource(k.GroupVersionResource).Namespace(namespace)
		if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return err
		}
		for n := range one.Objects {
			obj := object(k.kind, k.GroupVersion(), namespace, fmt.Sprintf("object-%05d", n), k.more)
			if _, err := client.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// object returns an object of a kind; more are its other fields.
func object(
	kind string, gv schema.GroupVersion, namespace, name string, more map[string]any,
) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(more)}
	if more == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion(gv.String())
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// row returns a row of the table.
func (p *programs) row(ctx context.Context, one Program, qps float32) (string, error) {
	file := filepath.Join(p.dir, fmt.Sprintf("program-%dx%d-%d-%v.db", one.Kinds, one.Objects, one.Changes, qps))
	defer func() { _ = os.Remove(file) }()
	if _, _, err := p.larder(ctx, one, -1, file); err != nil { // the first start, which lists
		return "", err
	}
	var took, requests [2][]float64
	for range startRuns {
		if err := p.changed(ctx, one); err != nil {
			return "", err
		}
		for i, start := range []func() (time.Duration, int64, error){
			func() (time.Duration, int64, error) { return p.clientGo(ctx, one, qps) },
			func() (time.Duration, int64, error) { return p.larder(ctx, one, qps, file) },
		} {
			time.Sleep(pause)
			d, n, err := start()
			if err != nil {
				return "", err
			}
			took[i], requests[i] = append(took[i], d.Seconds()), append(requests[i], float64(n))
		}
	}
	limit := fmt.Sprint(qps)
	if qps < 0 {
		limit = "none"
	}
	row := fmt.Sprintf("| %d × %d | %d | %s", one.Kinds, one.Objects, one.Changes, limit)
	var medians []float64
	for i := range took {
		t, n := report.Summarize(took[i]), report.Summarize(requests[i])
		medians = append(medians, t.Median)
		row += fmt.Sprintf(" | %.0f ms (%.0f – %.0f) | %.0f", t.Median*1e3, t.Min*1e3, t.Max*1e3, n.Median)
	}
	return fmt.Sprintf("%s | %.2f× |", row, medians[1]/medians[0]), nil
}

// changed changes objects of each kind, and one of another resource, so that the server's resourceVersion advances.
func (p *programs) changed(ctx context.Context, one Program) error {
	p.change++
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, p.change)
	for _, k := range kinds[:one.Kinds] {
		client := p.client.Resource(k.GroupVersionResource).Namespace(namespace)
		for n := range one.Changes {
			name := fmt.Sprintf("object-%05d", (p.change+n)%one.Objects)
			if _, err := client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
	}
	_, err := p.client.Resource(resourceOf("", "v1", "namespaces")).Patch(ctx, namespace, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// clientset returns a client with a rate limit, over a network connection of its own, and the number of its requests.
func (p *programs) clientset(qps float32) (*kubernetes.Clientset, *atomic.Int64, func(), error) {
	config := rest.CopyConfig(p.config)
	config.QPS, config.Burst = qps, int(2*qps)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	n := &atomic.Int64{}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counting{rt, n} })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, nil, err
	}
	set, err := kubernetes.NewForConfigAndClient(config, client)
	return set, n, client.CloseIdleConnections, err
}

// counting counts requests.
type counting struct {
	http.RoundTripper
	n *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// clientGo starts a program with client-go's factory.
func (p *programs) clientGo(ctx context.Context, one Program, qps float32) (time.Duration, int64, error) {
	set, n, closed, err := p.clientset(qps)
	if err != nil {
		return 0, 0, err
	}
	defer closed()
	begun := time.Now()
	f := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(namespace))
	return synced(ctx, f, one, n, begun)
}

// larder starts a program with Larder's factory.
func (p *programs) larder(ctx context.Context, one Program, qps float32, file string) (time.Duration, int64, error) {
	set, n, closed, err := p.clientset(qps)
	if err != nil {
		return 0, 0, err
	}
	defer closed()
	quiet := logr.Discard()
	begun := time.Now()
	st, err := store.Open(file, store.Options{Logger: &quiet})
	if err != nil {
		return 0, 0, err
	}
	var types []runtime.Object
	for _, k := range kinds[:one.Kinds] {
		example, err := scheme.Scheme.New(k.GroupVersion().WithKind(k.kind))
		if err != nil {
			return 0, 0, errors.Join(err, st.Close())
		}
		types = append(types, example)
	}
	f, err := factory.NewSharedInformerFactory(set, 0, factory.Options{
		Namespace: namespace, Informer: informer.Options{Store: st, PersistSecrets: true, Logger: &quiet},
	}, types...)
	if err != nil {
		return 0, 0, errors.Join(err, st.Close())
	}
	took, requests, err := synced(ctx, f, one, n, begun)
	return took, requests, errors.Join(err, st.Close())
}

// synced starts the informers of a factory, waits until all have synced, and stops them.
func synced(
	ctx context.Context, f informers.SharedInformerFactory, one Program, n *atomic.Int64, begun time.Time,
) (took time.Duration, requests int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer f.Shutdown()
	defer cancel()
	var done []cache.InformerSynced
	for _, k := range kinds[:one.Kinds] {
		inf, err := f.ForResource(k.GroupVersionResource)
		if err != nil {
			return 0, 0, err
		}
		done = append(done, inf.Informer().HasSynced)
	}
	f.Start(ctx.Done())
	for _, d := range done {
		for !d() {
			if ctx.Err() != nil {
				return 0, 0, ctx.Err()
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(begun), n.Load(), nil
}
