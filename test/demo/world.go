package demo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const (
	writers = 16
	// scheduler is the name of a scheduler that does not exist, so that the pods stay unscheduled.
	scheduler = "larder-demo-has-none"
	// admissionPatience is how long a new namespace may refuse pods because its service account does not exist yet.
	admissionPatience = 30 * time.Second
	// removeTries is the number of attempts to remove the namespace, because a request may use a dead connection.
	removeTries = 3
	cleanupTime = 2 * time.Minute
)

type world struct {
	client    *client
	namespace string
	// made is true if the namespace exists or may exist, so that it must be removed.
	made bool
}

type state map[string]*corev1.Pod

type changes struct{ created, updated, deleted []string }

func (c changes) sort() changes {
	slices.Sort(c.created)
	slices.Sort(c.updated)
	slices.Sort(c.deleted)
	return c
}

func newWorld(cluster Cluster) (*world, error) {
	c, err := newClient(cluster, "larder-demo/world")
	if err != nil {
		return nil, err
	}
	suffix := strconv.FormatUint(uint64(rand.Uint32()), 36)
	return &world{client: c, namespace: "larder-demo-" + suffix}, nil
}

func (w *world) makeNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	err := w.client.Post().Resource("namespaces").Body(ns).Do(ctx).Error()
	w.made = err == nil || mayHaveTakenEffect(err)
	if err != nil {
		return fmt.Errorf("create the namespace %s: %w", w.namespace, err)
	}
	return nil
}

// mayHaveTakenEffect reports whether a failed request may have changed the server. It returns false if the server
// refused the request or was not reached.
func mayHaveTakenEffect(err error) bool {
	var status apierrors.APIStatus
	var network *net.OpError
	switch {
	case errors.As(err, &status):
		return status.Status().Code >= http.StatusInternalServerError
	case errors.As(err, &network):
		return network.Op != "dial"
	}
	return true
}

func (w *world) create(ctx context.Context, n int) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, admissionPatience, true,
		func(ctx context.Context) (bool, error) {
			last = w.createPod(ctx, "pod-00000")
			if apierrors.IsForbidden(last) {
				return false, nil
			}
			return last == nil, last
		})
	if err != nil {
		return fmt.Errorf("create a first pod: %w", errors.Join(last, err))
	}
	var names []string
	for i := 1; i < n; i++ {
		names = append(names, fmt.Sprintf("pod-%05d", i))
	}
	return inParallel(ctx, names, w.createPod)
}

func (w *world) createPod(ctx context.Context, name string) error {
	return w.pods(w.client.Post()).Body(newPod(name)).Do(ctx).Error()
}

func (w *world) deletePod(ctx context.Context, name string) error {
	now := &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	return w.pods(w.client.Delete()).Name(name).Body(now).Do(ctx).Error()
}

func (w *world) pods(r *rest.Request) *rest.Request { return r.Namespace(w.namespace).Resource("pods") }

// change updates a hundredth of the pods. Per ten updates it creates five pods and deletes two. round is part of the
// names of new pods.
func (w *world) change(ctx context.Context, now state, round int) (changes, error) {
	keys := slices.Sorted(maps.Keys(now))
	updates, creates, deletes := max(len(keys)/100, 5), max(len(keys)/200, 3), max(len(keys)/500, 2)
	var done changes
	picked := spread(keys, updates+deletes)
	for i, key := range picked {
		if (i+1)*deletes/len(picked) > i*deletes/len(picked) {
			done.deleted = append(done.deleted, key)
		} else {
			done.updated = append(done.updated, key)
		}
	}
	for i := range creates {
		done.created = append(done.created, fmt.Sprintf("%s/new-%d-%03d", w.namespace, round, i))
	}
	err := inParallel(ctx, done.updated, func(ctx context.Context, key string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, round)
		return w.pods(w.client.Patch(types.MergePatchType)).Name(nameOf(key)).Body([]byte(patch)).Do(ctx).Error()
	})
	if err == nil {
		err = inParallel(ctx, done.created, func(ctx context.Context,
			key string) error {
			return w.createPod(ctx, nameOf(key))
		})
	}
	if err == nil {
		err = inParallel(ctx, done.deleted, func(ctx context.Context,
			key string) error {
			return w.deletePod(ctx, nameOf(key))
		})
	}
	return done.sort(), err
}

func (w *world) list(ctx context.Context) (state, error) {
	now := state{}
	o := metav1.ListOptions{Limit: 1000}
	for {
		var page corev1.PodList
		if err := w.pods(w.client.Get()).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(&page); err != nil {
			return nil, fmt.Errorf("list the pods to compare with: %w", err)
		}
		for i := range page.Items {
			pod := &page.Items[i]
			now[pod.Namespace+"/"+pod.Name] = pod
		}
		if o.Continue = page.Continue; o.Continue == "" {
			return now, nil
		}
	}
}

// remove deletes the namespace and its pods if the namespace was created. It works even after ctx has ended.
func (w *world) remove(ctx context.Context) error {
	defer w.client.close()
	if !w.made {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	var err error
	for range removeTries {
		if err = w.removeOnce(ctx); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("remove the namespace %s (please do it yourself: kubectl delete namespace %s): %w", w.namespace,
			w.namespace, err)
	}
	return nil
}

func (w *world) removeOnce(ctx context.Context) error {
	now := &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	err := w.pods(w.client.Delete()).Body(now).Do(ctx).Error()
	if err == nil {
		err = w.client.Delete().Resource("namespaces").Name(w.namespace).Body(&metav1.DeleteOptions{}).Do(ctx).Error()
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func spread(keys []string, n int) []string {
	var out []string
	for i := range min(n, len(keys)) {
		out = append(out, keys[(2*i+1)*len(keys)/(2*n)])
	}
	return out
}

func nameOf(key string) string { return key[strings.IndexByte(key, '/')+1:] }

func inParallel(ctx context.Context, keys []string, do func(ctx context.Context, key string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan string)
	var wg sync.WaitGroup
	for range min(writers, len(keys)) {
		wg.Go(func() {
			for key := range queue {
				if err := do(ctx, key); err != nil {
					cancel(fmt.Errorf("%s: %w", key, err))
				}
			}
		})
	}
	for _, key := range keys {
		select {
		case queue <- key:
		case <-ctx.Done():
		}
	}
	close(queue)
	wg.Wait()
	return context.Cause(ctx)
}

// newPod returns a pod of about three kilobytes that is never scheduled.
func newPod(name string) *corev1.Pod {
	// The contents of pods differ, because equal pods would compress better than real ones.
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	container := func(name string) corev1.Container {
		c := corev1.Container{
			Name: name,
			Image: "registry.invalid/team/" + name +
				"@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
			Command: []string{"/usr/local/bin/" + name, "--log-level=info", "--config=/etc/" + name + "/config.yaml"},
			Ports:   []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/" + name, ReadOnly: true}},
		}
		for i := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i),
				Value: strings.Repeat(string(rune('a'+i)), 24)})
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: "INSTANCE", Value: digest[:32]})
		return c
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"app": "larder-demo", "name": name},
			Annotations: map[string]string{"example.com/checksum": digest},
		},
		Spec: corev1.PodSpec{
			SchedulerName:                 scheduler,
			AutomountServiceAccountToken:  ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers:                    []corev1.Container{container("main"), container("sidecar")},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}},
			}}},
		},
	}
}
