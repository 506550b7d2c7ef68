package cluster

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// minHistory is how many events a watch may be behind, besides two for each object: a case changes each once, or as much as that.
const minHistory = 10_000

// loadAtOnce bounds how many objects exist beside the server's.
const loadAtOnce = 1000

// Embedded is the API server that runs in this process.
type Embedded struct{ server *fakeapi.Server }

var _ Cluster = (*Embedded)(nil)

// foreign is what a real server makes for itself: the benchmark is not alone here, either.
var foreign = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}}

// StartEmbedded starts one on a free loopback port, for n objects.
func StartEmbedded(n int) (*Embedded, error) {
	e := &Embedded{server: fakeapi.New(fakeapi.Options{
		History: 2*n + minHistory,
		Resources: []fakeapi.Resource{{
			GroupVersionResource: load.Kinds["widgets"].GVR, Kind: "Widget", Singular: "widget", Namespaced: true,
		}},
	})}
	if err := e.server.Load(corev1.SchemeGroupVersion.WithResource("configmaps"), foreign); err != nil {
		return nil, err
	}
	return e, e.server.Start()
}

// Access implements Cluster.
func (e *Embedded) Access() Access { return accessOf(e.server.Config()) }

// Version implements Cluster.
func (e *Embedded) Version() string { return "embedded API server" }

// Close implements Cluster.
func (e *Embedded) Close() error {
	e.server.Stop()
	return nil
}

// CPU implements Cluster.
func (e *Embedded) CPU() (time.Duration, bool) { return 0, false }

// LoseHistory implements Cluster.
func (e *Embedded) LoseHistory(context.Context) error {
	e.server.Stop()
	e.server.Compact()
	return e.server.Start()
}

// Load implements Cluster.
func (e *Embedded) Load(ctx context.Context, kind load.Kind, n int) error {
	for from := 0; from < n; from += loadAtOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		var objs []runtime.Object
		for i := from; i < min(from+loadAtOnce, n); i++ {
			objs = append(objs, load.WithManagedFields(kind.New(i, 0)))
		}
		if err := e.server.Load(kind.GVR, objs...); err != nil {
			return err
		}
	}
	return nil
}

// Change implements Cluster. The objects say when they were changed, too.
func (e *Embedded) Change(ctx context.Context, kind load.Kind, numbers []int, revision int) error {
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
		if err := e.server.Replace(kind.GVR, obj); err != nil {
			return err
		}
	}
	return nil
}
