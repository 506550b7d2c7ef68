package controllerruntime

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/larder-dev/larder/entry"
)

// namesakes adds resources of another group that are called as the tests' own: with other kinds, scopes and singulars.
func namesakes(m *meta.DefaultRESTMapper) *meta.DefaultRESTMapper {
	other := schema.GroupVersion{Group: "peas.example", Version: "v1"}
	m.AddSpecific(other.WithKind("Peapod"), other.WithResource("pods"), other.WithResource("peapod"), meta.RESTScopeRoot)
	m.AddSpecific(other.WithKind("Gadget"), other.WithResource("widgets"), other.WithResource("gadget"),
		meta.RESTScopeRoot)
	return m
}

// twoKinds has two kinds for every resource of the core group.
type twoKinds struct{ meta.RESTMapper }

func (m twoKinds) KindsFor(gvr schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	kinds, err := m.RESTMapper.KindsFor(gvr)
	if gvr.Group == "" {
		kinds = append(kinds, corev1.SchemeGroupVersion.WithKind("Other"), corev1.SchemeGroupVersion.WithKind("Pod"))
	}
	return kinds, err
}

// TestResourceInfo: what another group calls by the same name is not taken for the core group's.
func TestResourceInfo(t *testing.T) {
	pod := entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true}
	widget := entry.ResourceInfo{Kind: "Widget", Singular: "widget", Namespaced: true}
	peas := schema.GroupVersionResource{Group: "peas.example", Version: "v1", Resource: "pods"}
	both := namesakes(staticMapper().(*meta.DefaultRESTMapper))
	for name, c := range map[string]struct {
		mapper meta.RESTMapper
		gvr    schema.GroupVersionResource
		want   entry.ResourceInfo
	}{
		"core":                   {staticMapper(), pods, pod},
		"core, with a namesake":  {both, pods, pod},
		"the namesake":           {both, peas, entry.ResourceInfo{Kind: "Peapod", Singular: "peapod"}},
		"group, with a namesake": {both, widgets, widget},
		"several mappers": {meta.MultiRESTMapper{namesakes(meta.NewDefaultRESTMapper(nil)), staticMapper()}, pods,
			pod},
		"unknown": {staticMapper(), peas, entry.ResourceInfo{}},
	} {
		got, err := resourceInfo(c.mapper, c.gvr)
		if err != nil || got.Kind != c.want.Kind || got.Singular != c.want.Singular || got.Namespaced != c.want.Namespaced {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestNamesake: a resource of another group with the name of a core one does not keep what is stored from being
// described.
func TestNamesake(t *testing.T) {
	st, _ := openStore(t, storePath(t))
	w := newWorld(t, startServer(t), NewCache(on(t, st)))
	w.create(cache.Options{Mapper: namesakes(staticMapper().(*meta.DefaultRESTMapper))})
	_, err := w.GetInformer(w.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	must(t, err)
	w.run()
	infos, err := st.Collections(t.Context())
	must(t, err)
	if len(infos) != 1 || infos[0].Resource.Kind != "Pod" || infos[0].Resource.Singular != "pod" ||
		!infos[0].Resource.Namespaced {
		t.Errorf("%+v", infos)
	}
}

// TestTwoKinds: an informer on a resource of more than one kind is refused.
func TestTwoKinds(t *testing.T) {
	w := newWorld(t, startServer(t), persistent(t))
	w.create(cache.Options{Mapper: twoKinds{staticMapper()}})
	_, err := w.GetInformer(w.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "2 kinds for /v1, Resource=pods") {
		t.Error(err)
	}
	t.Log(err)
}
