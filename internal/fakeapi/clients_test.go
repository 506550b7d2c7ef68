package fakeapi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

var widgets = Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
	Kind:                 "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true,
}

func widget(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"app": "x"}},
		"spec":     map[string]any{"size": int64(3), "ratio": 0.5, "nothing": nil, "empty": []any{}},
	}}
}

func TestDynamicClient(t *testing.T) {
	s := start(t, Options{Resources: []Resource{widgets}})
	ctx := testContext(t)
	config := s.Config()
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	client, err := dynamic.NewForConfigAndClient(config, httpClient)
	must(t, err)
	for _, gvr := range []schema.GroupVersionResource{widgets.GroupVersionResource, podsGVR} {
		resource := client.Resource(gvr).Namespace("default")
		w, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: s.RV(), AllowWatchBookmarks: true})
		must(t, err)
		obj := widget("default", "a")
		if gvr == podsGVR {
			obj, err = s.Create(podsGVR, pod("other", "template", nil))
			must(t, err)
			obj = &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"}, "spec": obj.Object["spec"],
			}}
		}
		created, err := resource.Create(ctx, obj, metav1.CreateOptions{})
		must(t, err)
		if created.GetUID() == "" || created.GetResourceVersion() != s.RV() || created.GetKind() != obj.GetKind() {
			t.Errorf("created %v", created.Object)
		}
		got, err := resource.Get(ctx, "a", metav1.GetOptions{})
		must(t, err)
		if !apiequality.Semantic.DeepEqual(created, got) {
			t.Errorf("created %v, got %v", created, got)
		}
		must(t, resource.Delete(ctx, "a", metav1.DeleteOptions{}))
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
			e := <-w.ResultChan()
			u, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type != want || u.GetName() != "a" || u.GetKind() != obj.GetKind() ||
				u.GetAPIVersion() != obj.GetAPIVersion() {
				t.Fatalf("%s of %v, not %s", e.Type, e.Object, want)
			}
		}
		s.Bookmark()
		e := <-w.ResultChan()
		if u, ok := e.Object.(*unstructured.Unstructured); !ok || e.Type != watch.Bookmark ||
			u.GetResourceVersion() != s.RV() {
			t.Errorf("bookmark: %s of %v", e.Type, e.Object)
		}
		w.Stop()
	}
	kept, err := s.Create(widgets.GroupVersionResource, widget("default", "kept"))
	must(t, err)
	list, err := client.Resource(widgets.GroupVersionResource).List(ctx, metav1.ListOptions{LabelSelector: "app=x"})
	must(t, err)
	if len(list.Items) != 1 || !apiequality.Semantic.DeepEqual(list.Items[0].Object, kept.Object) {
		t.Errorf("listed %v, stored %v", list.Items, kept)
	}
	if spec := kept.Object["spec"].(map[string]any); spec["size"] != int64(3) || spec["ratio"] != 0.5 {
		t.Errorf("numbers changed: %v", spec)
	}
}

func TestMetadataClient(t *testing.T) {
	s := start(t, Options{Resources: []Resource{widgets}})
	ctx := testContext(t)
	load(t, s, 2)
	_, err := s.Create(widgets.GroupVersionResource, widget("default", "pod-00000"))
	must(t, err)
	for _, contentType := range contentTypes {
		config := metadata.ConfigFor(s.Config())
		if contentType == contentJSON {
			config.AcceptContentTypes = contentJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
				contentJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		}
		httpClient, err := rest.HTTPClientFor(config)
		must(t, err)
		t.Cleanup(httpClient.CloseIdleConnections)
		client, err := metadata.NewForConfigAndClient(config, httpClient)
		must(t, err)
		for _, gvr := range []schema.GroupVersionResource{podsGVR, widgets.GroupVersionResource} {
			resource := client.Resource(gvr)
			list, err := resource.List(ctx, metav1.ListOptions{Limit: 1})
			must(t, err)
			want := s.List(gvr)[0]
			got := list.Items[0]
			if got.Name != want.GetName() || got.UID != want.GetUID() || got.ResourceVersion != want.GetResourceVersion() ||
				len(got.Labels) != 1 {
				t.Errorf("%s: listed %+v", gvr.Resource, got)
			}
			one, err := resource.Namespace("default").Get(ctx, "pod-00000", metav1.GetOptions{})
			must(t, err)
			if one.UID != want.GetUID() {
				t.Errorf("%s: got %+v", gvr.Resource, one)
			}
			w, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: s.RV(), AllowWatchBookmarks: true})
			must(t, err)
			next := widget("default", "z-next-"+contentType[len(contentType)-4:])
			if gvr == podsGVR {
				must(t, s.Load(gvr, pod("default", next.GetName(), nil)))
			} else {
				must(t, s.Load(gvr, next))
			}
			e := <-w.ResultChan()
			if m, ok := e.Object.(*metav1.PartialObjectMetadata); !ok || m.Name != next.GetName() ||
				m.ResourceVersion != s.RV() {
				t.Errorf("%s: %s of %T %v", gvr.Resource, e.Type, e.Object, e.Object)
			}
			s.Bookmark()
			if e := <-w.ResultChan(); e.Type != watch.Bookmark {
				t.Errorf("%s: %s instead of a bookmark", gvr.Resource, e.Type)
			}
			w.Stop()
		}
	}
	if _, body := get(t, s, "/api/v1/pods", map[string][]string{
		"Accept": {contentJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
	}); len(body) == 0 ||
		string(
			body[:len(
				`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`)]) != `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"` {
		t.Errorf("the list begins with %.80s", body)
	}
}

func TestDiscovery(t *testing.T) {
	s := start(t, Options{Resources: []Resource{widgets}})
	config := s.Config()
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	client, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	must(t, err)
	groups, err := restmapper.GetAPIGroupResources(client)
	must(t, err)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), client, nil)
	for name, want := range map[string]string{
		"po": "/v1, Resource=pods", "widget": "example.com/v1, Resource=widgets", "wd": "example.com/v1, Resource=widgets",
		"deploy": "apps/v1, Resource=deployments", "nodes": "/v1, Resource=nodes",
	} {
		gvr, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: name})
		if err != nil || gvr.String() != want {
			t.Errorf("%s: %v %v", name, gvr, err)
		}
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"})
	must(t, err)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Errorf("widgets are %s", mapping.Scope.Name())
	}
	if _, err := client.ServerVersion(); err != nil {
		t.Error(err)
	}
	hash := func() string {
		paths, err := client.OpenAPIV3().Paths()
		must(t, err)
		return paths["apis/example.com/v1"].ServerRelativeURL()
	}
	before := hash()
	s.SetOpenAPIHash(widgets.GroupVersion(), "CHANGED")
	if after := hash(); after == before || after != "/openapi/v3/apis/example.com/v1?hash=CHANGED" {
		t.Errorf("the schema's URL was %s, is %s", before, after)
	}
	if c := s.Counts(schema.GroupVersionResource{}); c.Discovery == 0 || c.BytesSent == 0 || c.Lists != 0 {
		t.Errorf("counts: %+v", c)
	}
}

func TestKubeSystem(t *testing.T) {
	a, b := start(t, Options{}), start(t, Options{})
	uid := func(s *Server) string {
		ns, err := typed(t, s, contentProtobuf).CoreV1().Namespaces().Get(testContext(t), metav1.NamespaceSystem,
			metav1.GetOptions{})
		must(t, err)
		if ns.Status.Phase != corev1.NamespaceActive {
			t.Errorf("kube-system is %q", ns.Status.Phase)
		}
		return string(ns.UID)
	}
	if first, second := uid(a), uid(b); first == "" || first == second {
		t.Errorf("the UIDs of two servers are %q and %q", first, second)
	}
}
