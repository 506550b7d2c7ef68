package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/snapshot"
)

const servedPods = 1000

func startServer(t *testing.T) *fakeapi.Server {
	t.Helper()
	srv := fakeapi.New(fakeapi.Options{})
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	var pods, maps, nodes []runtime.Object
	for i := range servedPods {
		p := savedPod(i, "")
		pods = append(pods, p)
	}
	for i := range 25 {
		maps = append(maps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("c-%02d", i)},
			Data: map[string]string{"k": "v"}})
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n-%02d", i)}})
	}
	for resource, objs := range map[string][]runtime.Object{"pods": pods, "configmaps": maps, "nodes": nodes} {
		if err := srv.Load(corev1.SchemeGroupVersion.WithResource(resource), objs...); err != nil {
			t.Fatal(err)
		}
	}
	return srv
}

func servedIdentity(resource string) entry.Identity {
	return entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource),
		Representation: entry.Unstructured}
}

func listings(t *testing.T, srv *fakeapi.Server) (all []snapshot.Listing) {
	t.Helper()
	client, err := dynamic.NewForConfig(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		resource, kind string
		namespaced     bool
	}{{"pods", "Pod", true}, {"configmaps", "ConfigMap", true}, {"nodes", "Node", false}} {
		id := servedIdentity(r.resource)
		all = append(all, snapshot.Listing{
			Identity: id, Resource: entry.ResourceInfo{Kind: r.kind, Namespaced: r.namespaced},
			List: client.Resource(id.GroupVersionResource).List,
		})
	}
	return all
}

func wantServed(t *testing.T, src snapshot.Source, id entry.Identity, served map[string]string) {
	t.Helper()
	got := recordsOf(t, src, id)
	if len(got) != len(served) {
		t.Errorf("%s: %d objects, the server had %d", id, len(got), len(served))
	}
	for _, r := range got {
		if served[r.Key] != r.ResourceVersion {
			t.Fatalf("%s: %s is at %s, and was at %q", id, r.Key, r.ResourceVersion, served[r.Key])
		}
	}
}

func servedState(srv *fakeapi.Server, resource string) map[string]string {
	state := map[string]string{}
	for _, u := range srv.List(corev1.SchemeGroupVersion.WithResource(resource)) {
		key := u.GetName()
		if u.GetNamespace() != "" {
			key = u.GetNamespace() + "/" + key
		}
		state[key] = u.GetResourceVersion()
	}
	return state
}

// TestSaveServer checks that each collection is saved at its resourceVersion, although objects change between pages.
func TestSaveServer(t *testing.T) {
	srv := startServer(t)
	lists := listings(t, srv)
	rv, served := srv.RV(), servedState(srv, "pods")
	plain, pages := lists[0].List, 0
	lists[0].List = func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		list, err := plain(ctx, o)
		if pages++; err == nil {
			churn(t, srv, pages)
		}
		return list, err
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	var last snapshot.Progress
	saved, err := snapshot.SaveServer(t.Context(), lists, path, snapshot.WithPages(snapshot.SaveOptions{
		Header: snapshot.Header{ClusterID: "cluster-9", ServerVersion: "v1.36.3"},
		Progress: func(p snapshot.Progress) {
			if p.Objects < last.Objects {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
		},
	}, 100))
	if err != nil || pages != 10 || last.Objects != servedPods+50 {
		t.Fatalf("%d pages, %+v, %v", pages, last, err)
	}
	wantNames(t, dir, "a.larder")
	f := mustOpenFile(t, path, snapshot.OpenOptions{})
	wantServed(t, f, lists[0].Identity, served)
	wantServed(t, f, lists[1].Identity, servedState(srv, "configmaps"))
	wantServed(t, f, lists[2].Identity, servedState(srv, "nodes"))
	for _, c := range append(saved.Collections, f.Manifest().Collections...) {
		if !c.Complete || c.MustRelist != "" || c.Attributes.ClusterID != "cluster-9" || c.Attributes.Schema == "" ||
			c.LastContact.IsZero() {
			t.Errorf("%+v", c)
		}
	}
	if c := f.Manifest().Collections[0]; c.ResourceVersion != rv || c.Objects != servedPods {
		t.Errorf("%+v, want it at %s", c, rv)
	}
	restored, _ := mustRestore(t, path, snapshot.RestoreOptions{})
	wantServed(t, snapshot.StoreSource(restored), lists[0].Identity, served)
}

// churn changes one pod, deletes one and creates one, before and after the pods that are already listed.
func churn(t *testing.T, srv *fakeapi.Server, n int) {
	t.Helper()
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	changed, added := savedPod(n, ""), savedPod(servedPods+n, "")
	changed.UID, changed.ResourceVersion, changed.Spec.NodeName = "", "", "other"
	gone := savedPod(servedPods-n, "")
	if _, err := srv.Update(gvr, changed); err != nil {
		t.Error(err)
	}
	if err := srv.Delete(gvr, gone.Namespace, gone.Name); err != nil {
		t.Error(err)
	}
	if _, err := srv.Create(gvr, added); err != nil {
		t.Error(err)
	}
}

// TestSaveServerExpired checks that a list whose continue token has expired starts again with larger pages.
func TestSaveServerExpired(t *testing.T) {
	srv := startServer(t)
	lists := listings(t, srv)[:1]
	plain := lists[0].List
	var limits []int64
	var want map[string]string
	lists[0].List = func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		limits = append(limits, o.Limit)
		if o.Continue != "" {
			churn(t, srv, len(limits))
			return nil, apierrors.NewResourceExpired("a test: the continue token is too old")
		}
		want = servedState(srv, "pods")
		return plain(ctx, o)
	}
	path := filepath.Join(t.TempDir(), "a.larder")
	if _, err := snapshot.SaveServer(t.Context(), lists, path,
		snapshot.WithPages(snapshot.SaveOptions{}, 100)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(limits) != "[100 100 500 500 0]" {
		t.Errorf("limits %v", limits)
	}
	wantServed(t, mustOpenFile(t, path, snapshot.OpenOptions{}), lists[0].Identity, want)
	wantNames(t, filepath.Dir(path), "a.larder")
}

// TestSaveServerWithFaults checks that transient errors are retried, and that an unsorted list is accepted.
func TestSaveServerWithFaults(t *testing.T) {
	srv := startServer(t)
	lists := listings(t, srv)
	path := filepath.Join(t.TempDir(), "a.larder")
	want := servedState(srv, "pods")
	for name, fault := range map[string]fakeapi.Fault{
		"busy": {Verb: "list", Resource: "pods", After: 3, Times: 1, Status: http.StatusServiceUnavailable,
			Reason: string(metav1.StatusReasonServiceUnavailable)},
		"unsorted": {Verb: "list", Resource: "pods", Unsorted: true},
	} {
		t.Run(name, func(t *testing.T) {
			defer srv.InjectFault(fault)()
			if _, err := snapshot.SaveServer(t.Context(), lists, path,
				snapshot.WithPages(snapshot.SaveOptions{}, 100)); err != nil {
				t.Fatal(err)
			}
			wantServed(t, mustOpenFile(t, path, snapshot.OpenOptions{}), lists[0].Identity, want)
		})
	}
	defer srv.InjectFault(fakeapi.Fault{Verb: "list", Resource: "configmaps", Status: http.StatusForbidden,
		Reason: string(metav1.StatusReasonForbidden)})()
	if _, err := snapshot.SaveServer(t.Context(), lists, path, snapshot.SaveOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "configmaps") {
		t.Errorf("forbidden: %v", err)
	}
	lists[1].Optional = true
	saved, err := snapshot.SaveServer(t.Context(), lists, path, snapshot.SaveOptions{})
	if err != nil || len(saved.LeftOut) != 0 || len(saved.Refused) != 1 ||
		saved.Refused[0].Collection.Identity.Resource != "configmaps" ||
		!apierrors.IsForbidden(saved.Refused[0].Err) {
		t.Fatalf("%+v, %v", saved, err)
	}
	c := mustOpenFile(t, path, snapshot.OpenOptions{}).Manifest().Collections[1]
	if c.Complete || c.MustRelist == "" || c.Objects != 0 {
		t.Errorf("%+v", c)
	}
	wantNames(t, filepath.Dir(path), "a.larder")
}

func TestSaveServerRefuses(t *testing.T) {
	list := func(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		return nil, errStopped
	}
	path := filepath.Join(t.TempDir(), "a.larder")
	for name, l := range map[string]snapshot.Listing{
		"no identity": {List: list},
		"no list":     {Identity: servedIdentity("pods")},
	} {
		if _, err := snapshot.SaveServer(t.Context(), []snapshot.Listing{l}, path,
			snapshot.SaveOptions{}); err == nil || errors.Is(err, errStopped) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := snapshot.Listing{Identity: servedIdentity("pods"), List: list}
	if _, err := snapshot.SaveServer(t.Context(), []snapshot.Listing{l, l}, path, snapshot.SaveOptions{}); !errors.Is(err,
		snapshot.ErrOrder) {
		t.Errorf("twice: %v", err)
	}
	if _, err := snapshot.SaveServer(t.Context(), []snapshot.Listing{l}, path, snapshot.SaveOptions{}); !errors.Is(err,
		errStopped) {
		t.Errorf("%v", err)
	}
	wantNames(t, filepath.Dir(path))
}

// TestUncomparable checks that a resourceVersion that is not a number, as of an aggregated API, is not saved.
func TestUncomparable(t *testing.T) {
	l := snapshot.Listing{
		Identity: entry.Identity{GroupVersionResource: schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "rs"},
			Representation: entry.Unstructured},
		List: func(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
			list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{
				{Object: map[string]any{"metadata": map[string]any{"name": "x"}}}}}
			list.SetResourceVersion("a-b")
			return list, nil
		},
	}
	path := filepath.Join(t.TempDir(), "a.larder")
	saved, err := snapshot.SaveServer(t.Context(), []snapshot.Listing{l}, path, snapshot.SaveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := saved.Collections[0]; !c.Complete || c.ResourceVersion != "" || c.MustRelist == "" || c.Objects != 1 {
		t.Errorf("%+v", c)
	}
	mustRestore(t, path, snapshot.RestoreOptions{})
}
