package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

const writers = 32

type real struct {
	*controlplane.ControlPlane
	client  kubernetes.Interface
	version string

	mark   int64 // end of the audit log at the previous call of Asked
	listed int   // the server's counter of LIST requests at the previous call of Asked
}

// StartReal starts kube-apiserver and etcd with data and logs in dir. It builds missing programs. args are further
// flags of kube-apiserver.
func StartReal(ctx context.Context, dir string, args ...string) (Cluster, error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir, Args: args})
	if err != nil {
		return nil, err
	}
	r := &real{ControlPlane: cp}
	config := r.Access().Config()
	config.ContentType = runtime.ContentTypeProtobuf
	if r.client, err = kubernetes.NewForConfig(config); err == nil {
		r.version, err = cp.Version(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return r, nil
}

func (r *real) Access() Access { return accessOf(r.Config("larder-bench")) }

func (r *real) Version() string { return "kube-apiserver " + r.version }

func (r *real) Close() error { return r.Stop() }

func (r *real) LoseHistory(ctx context.Context) error { return r.Restart(ctx) }

func (r *real) CPU() (time.Duration, bool) {
	used, err := proc.CPU(r.APIServerPID())
	return used, err == nil
}

func (r *real) Collect(ctx context.Context) error {
	err := r.client.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("have kube-apiserver collect its garbage: %w", err)
	}
	return nil
}

func (r *real) Load(ctx context.Context, kind load.Kind, n int) error {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	for i := 0; i < n; i += load.PerNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: load.Namespace(i)}}
		_, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return inParallel(ctx, numbers, func(ctx context.Context, i int) error {
		err := r.client.CoreV1().RESTClient().Post().Namespace(load.Namespace(i)).Resource(kind.Name).
			Body(kind.New(i, 0)).Do(ctx).Error()
		if apierrors.IsAlreadyExists(err) {
			return nil // created by an earlier Load
		}
		return err
	})
}

func (r *real) Change(ctx context.Context, kind load.Kind, numbers []int, revision int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, load.RevisionAnnotation, revision)
	change := func(ctx context.Context, i int) error {
		return r.client.CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(load.Namespace(i)).
			Resource(kind.Name).Name(kind.ObjectName(i)).Body(patch).Do(ctx).Error()
	}
	last := len(numbers) - 1
	if err := inParallel(ctx, numbers[:last], change); err != nil {
		return err
	}
	return change(ctx, numbers[last])
}

func inParallel(ctx context.Context, numbers []int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, i := range numbers {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
