package cluster

import (
	"context"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// minHistory is the number of watch events that the embedded server keeps in addition to two for each object. A
// benchmark case makes about one change for each object.
const minHistory = 10_000

type embedded struct{ *fakeapi.Server }

// StartEmbedded starts an embedded server on a free loopback port. The server keeps enough history for n objects.
func StartEmbedded(n int) (Cluster, error) {
	e := embedded{fakeapi.New(fakeapi.Options{
		History: 2*n + minHistory,
		Resources: []fakeapi.Resource{{
			GroupVersionResource: load.KindOf("widgets").GVR, Kind: "Widget", Singular: "widget", Namespaced: true,
		}},
	})}
	// A real server creates this ConfigMap in kube-system. The embedded server has it too, so that informers see the same
	// objects on both servers.
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication",
	}}
	if err := e.Server.Load(load.KindOf("configmaps").GVR, foreign); err != nil {
		return nil, err
	}
	return e, e.Start()
}

func (e embedded) Access() Access { return accessOf(e.Config()) }

func (embedded) Version() string { return "embedded API server" }

func (embedded) CPU() (time.Duration, bool) { return 0, false }

func (embedded) Collect(context.Context) error {
	runtime.GC()
	return nil
}

func (e embedded) Close() error {
	e.Stop()
	return nil
}

func (e embedded) LoseHistory(context.Context) error {
	e.Stop()
	e.Compact()
	return e.Start()
}

func (e embedded) Load(ctx context.Context, kind load.Kind, n int) error {
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := e.Server.Load(kind.GVR, load.WithManagedFields(kind.New(i, 0)))
		if err != nil && !apierrors.IsAlreadyExists(err) { // created by an earlier Load
			return err
		}
	}
	return nil
}

// Change also writes the current time into the objects, as the annotation load.MadeAnnotation.
func (e embedded) Change(ctx context.Context, kind load.Kind, numbers []int, revision int) error {
	for _, i := range numbers {
		if err := ctx.Err(); err != nil {
			return err
		}
		obj := load.WithManagedFields(kind.New(i, revision))
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		annotations := m.GetAnnotations()
		annotations[load.MadeAnnotation] = strconv.FormatInt(time.Now().UnixNano(), 10)
		m.SetAnnotations(annotations)
		if err := e.Replace(kind.GVR, obj); err != nil {
			return err
		}
	}
	return nil
}
