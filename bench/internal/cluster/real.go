package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// writers is how many requests are made at a time.
const writers = 32

type real struct {
	*controlplane.ControlPlane
	client  kubernetes.Interface
	version string
}

// StartReal builds kube-apiserver and etcd where they are missing, and starts them with data and logs in dir.
func StartReal(ctx context.Context, dir string) (Cluster, error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
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

func (r *real) Load(ctx context.Context, kind load.Kind, n int) error {
	for _, name := range load.Namespaces(n) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return inParallel(ctx, numbers, func(ctx context.Context, i int) error {
		var err error
		switch obj := kind.New(i, 0).(type) {
		case *corev1.Pod:
			_, err = r.client.CoreV1().Pods(obj.Namespace).Create(ctx, obj, metav1.CreateOptions{})
		case *corev1.ConfigMap:
			_, err = r.client.CoreV1().ConfigMaps(obj.Namespace).Create(ctx, obj, metav1.CreateOptions{})
		default:
			err = fmt.Errorf("%s are loaded into the embedded server only", kind.Name)
		}
		if apierrors.IsAlreadyExists(err) {
			return nil // of an earlier Load of fewer
		}
		return err
	})
}

func (r *real) Change(ctx context.Context, kind load.Kind, numbers []int, revision int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, load.RevisionAnnotation, revision)
	return inParallel(ctx, numbers, func(ctx context.Context, i int) error {
		return r.client.CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(load.Namespace(i)).
			Resource(kind.Name).Name(kind.ObjectName(i)).Body(patch).Do(ctx).Error()
	})
}

// inParallel calls do for every number, and returns the errors of those workers that had to give up.
func inParallel(ctx context.Context, numbers []int, do func(ctx context.Context, i int) error) error {
	next := make(chan int)
	errs := make([]error, writers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range next {
				if errs[w] = do(ctx, i); errs[w] != nil {
					cancel()
					return
				}
			}
		})
	}
feed:
	for _, i := range numbers {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}
