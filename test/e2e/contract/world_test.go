package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

type kind struct {
	schema.GroupVersionResource
	Kind       string
	namespaced bool
	object     string
	// fields are field selectors that the servers support for the kind, and unsupported is one that they refuse.
	fields      []string
	unsupported string
}

var (
	pods = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod",
		namespaced: true, object: "running", unsupported: "spec.hostIP=10.0.0.1",
		fields: []string{"spec.nodeName=node-1", "spec.nodeName=", "status.phase!=Running", "status.podIP=10.1.0.1",
			"spec.hostNetwork=true", "spec.hostNetwork=false", "spec.serviceAccountName=robot", "spec.restartPolicy=Never",
			"spec.schedulerName=default-scheduler", "status.nominatedNodeName=", "status.podIPs=10.1.0.1",
			"spec.nodeName=node-1,status.phase=Running"}}
	configmaps = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind: "ConfigMap", namespaced: true, object: "settings", unsupported: "data.a=1"}
	nodes = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Kind: "Node",
		object: "node-1", unsupported: "metadata.namespace=shop",
		fields: []string{"spec.unschedulable=true", "spec.unschedulable=false"}}
	namespaces = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		Kind: "Namespace", object: "shop", unsupported: "name=shop",
		fields: []string{"status.phase=Active", "status.phase!=Active"}}
	deployments = kind{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1",
		Resource: "deployments"}, Kind: "Deployment", namespaced: true, object: "web", unsupported: "spec.replicas=3"}
	events = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "events"}, Kind: "Event",
		namespaced: true, object: "running.1", unsupported: "message=x",
		fields: []string{"involvedObject.kind=Pod", "involvedObject.name=running,involvedObject.namespace=shop",
			"involvedObject.uid=u-1", "involvedObject.fieldPath=spec.containers{c}", "involvedObject.apiVersion=",
			"involvedObject.resourceVersion=", "type!=Normal", "reason=Evicted", "source=kubelet", "reportingComponent=kubelet"}}
	gadgets = kind{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "gadgets"}, Kind: "Gadget", namespaced: true, object: "full", unsupported: "spec.ratio=1",
		fields: []string{"spec.color=red", "spec.color!=red", "spec.color=", "spec.count=3", "spec.count=0", "spec.on=true",
			"spec.on=false", "spec.color=red,spec.on=true"}}
	plains = kind{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "plains"}, Kind: "Plain", object: "one", unsupported: "spec.x=1"}
)

// kinds are the mirrored kinds that the tests request with every combination of parameters.
var kinds = []kind{pods, configmaps, nodes, namespaces, deployments, events, gadgets, plains}

// These kinds have no Go type in client-go, or a deprecated version.
var (
	definitions = kind{GroupVersionResource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}, Kind: "CustomResourceDefinition", object: "gadgets.example.com",
		unsupported: "spec.group=example.com"}
	apiServices = kind{GroupVersionResource: schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1",
		Resource: "apiservices"}, Kind: "APIService", object: "v1.apps", unsupported: "spec.group=apps"}
	endpoints = kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "endpoints"},
		Kind: "Endpoints", namespaced: true, object: "old", unsupported: "subsets=x"}
	relics = kind{GroupVersionResource: schema.GroupVersionResource{Group: "past.example.com", Version: "v1alpha1",
		Resource: "relics"}, Kind: "Relic", namespaced: true, object: "old", unsupported: "spec.x=1"}
)

// further are mirrored kinds that the tests request with fewer combinations of parameters.
var further = []kind{definitions, apiServices, endpoints, relics}

var mirroredKinds = slices.Concat(kinds, further)

func (k kind) argument() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Version + "." + k.Group
}

// all returns the path of the kind's whole collection, and in the path of the objects in one namespace.
func (k kind) all() string {
	if k.Group == "" {
		return "/api/" + k.Version + "/" + k.Resource
	}
	return "/apis/" + k.Group + "/" + k.Version + "/" + k.Resource
}

func (k kind) in(namespace string) string {
	if !k.namespaced {
		return k.all()
	}
	return strings.TrimSuffix(k.all(), k.Resource) + "namespaces/" + namespace + "/" + k.Resource
}

func (k kind) named(name string) string { return k.in("shop") + "/" + name }

// old, mid and now return placeholders for three resourceVersions of the kind: before, between and at its latest
// changes.
func (k kind) old() string { return "{old:" + k.Resource + "}" }
func (k kind) mid() string { return "{mid:" + k.Resource + "}" }
func (k kind) now() string { return "{now:" + k.Resource + "}" }

type world struct {
	server   *controlplane.ControlPlane
	upstream *target
	client   dynamic.Interface
	versions map[string]string
}

// newWorld creates the objects of testdata, and then makes the server lose its history: etcd is compacted, and a
// restarted API server has new watch caches.
func newWorld(ctx context.Context, server *controlplane.ControlPlane) (w *world, err error) {
	w = &world{server: server, versions: map[string]string{"{future}": "1000000000"}}
	config := w.server.Config(controlplane.Writer)
	config.WarningHandler = rest.NoWarnings{}
	if w.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := w.create(ctx); err != nil {
		return nil, err
	}
	if w.versions["{ancient}"], err = w.version(ctx, pods); err != nil {
		return nil, err
	}
	if err := w.touch(ctx); err != nil {
		return nil, err
	}
	w.server.StopAPIServer()
	if err := w.server.Compact(ctx); err != nil {
		return nil, err
	}
	if err := w.server.StartAPIServer(ctx); err != nil {
		return nil, err
	}
	transport, err := transportFor(w.server.Config("contract"))
	if err != nil {
		return nil, err
	}
	w.upstream = newTarget("kube-apiserver", w.server.Config("").Host, w.server.Config("").BearerToken, transport)
	return w, w.served(ctx)
}

func (w *world) create(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join("testdata", "world.yaml"))
	if err != nil {
		return err
	}
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var u unstructured.Unstructured
		if err := docs.Decode(&u.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := w.createOne(ctx, &u); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	for _, size := range []int{100, 127, 129, 150} { // in KiB; both servers compress answers from 128 KiB
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": fmt.Sprintf("size-%d", size), "namespace": "large"},
			"data":     map[string]any{"a": strings.Repeat("0123456789abcdef", size*64)}}}
		if err := w.createOne(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) createOne(ctx context.Context, u *unstructured.Unstructured) error {
	r, err := w.resource(u)
	if err != nil {
		return err
	}
	var created *unstructured.Unstructured
	err = retry(ctx, func() error { // the server serves a new kind only some time after its definition
		created, err = r.Create(ctx, u, metav1.CreateOptions{})
		return err
	})
	if err != nil || u.Object["status"] == nil {
		return err
	}
	created.Object["status"] = u.Object["status"]
	_, err = r.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

func (w *world) resource(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	for _, k := range mirroredKinds {
		if u.GetKind() == k.Kind {
			return w.in(k, u.GetNamespace()), nil
		}
	}
	return nil, errors.New("no kind of this test")
}

func (w *world) in(k kind, namespace string) dynamic.ResourceInterface {
	if !k.namespaced {
		return w.client.Resource(k.GroupVersionResource)
	}
	return w.client.Resource(k.GroupVersionResource).Namespace(namespace)
}

func retry(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := do()
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *world) version(ctx context.Context, k kind) (string, error) {
	list, err := w.client.Resource(k.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}

// touch changes an object of each kind, so that the resourceVersion of the placeholder {ancient} is outdated.
func (w *world) touch(ctx context.Context) error {
	for _, k := range mirroredKinds {
		if err := w.patch(ctx, k, k.object, `{"metadata":{"annotations":{"test/touched":"yes"}}}`); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) patch(ctx context.Context, k kind, name, patch string) error {
	_, err := w.in(k, "shop").Patch(ctx, name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("%s %s: %w", k.Resource, name, err)
	}
	return nil
}

func (w *world) served(ctx context.Context) error {
	for _, k := range mirroredKinds {
		if err := retry(ctx, func() error { _, err := w.version(ctx, k); return err }); err != nil {
			return err
		}
	}
	return retry(ctx, func() error {
		for _, path := range []string{"/openapi/v3/apis/example.com/v1", "/openapi/v3/apis/example.com/v1beta1",
			"/openapi/v3/apis/apps/v1", "/openapi/v3/api/v1"} {
			if resp := w.upstream.send(ctx, get(path)); resp.status != 200 {
				return fmt.Errorf("%s: %d %w", path, resp.status, resp.err)
			}
		}
		return nil
	})
}

// makeChanges makes the latest changes, between the resourceVersions old and now of each kind. It creates an object,
// adds and removes labels of that object, and deletes it. Of kinds with fewer requests, one object changes.
func (w *world) makeChanges(ctx context.Context) error {
	for _, k := range mirroredKinds {
		var err error
		if w.versions[k.old()], err = w.version(ctx, k); err != nil {
			return err
		}
		labels := []string{`{"app":"web"}`, `{"app":"db","tier":"front"}`, `{"app":"web","tier":null}`, `{"app":null}`}
		names := []string{"comes", "goes"}
		if slices.ContainsFunc(further, func(f kind) bool { return f.Resource == k.Resource }) {
			names = nil
		}
		for _, name := range names {
			if err := w.createOne(ctx, k.another(name)); err != nil {
				return fmt.Errorf("%s %s: %w", k.Resource, name, err)
			}
			for _, l := range labels {
				if err := w.patch(ctx, k, name, `{"metadata":{"labels":`+l+`}}`); err != nil {
					return err
				}
			}
			if name == "goes" {
				if err := w.in(k, "shop").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
					return fmt.Errorf("%s %s: %w", k.Resource, name, err)
				}
			}
			if w.versions[k.mid()] == "" {
				if w.versions[k.mid()], err = w.version(ctx, k); err != nil {
					return err
				}
			}
		}
		if err := w.patch(ctx, k, k.object, `{"metadata":{"annotations":{"test/stirred":"yes"}}}`); err != nil {
			return err
		}
		u, err := w.in(k, "shop").Get(ctx, k.object, metav1.GetOptions{})
		if err != nil {
			return err
		}
		w.versions[k.now()] = u.GetResourceVersion()
	}
	return nil
}

func (k kind) another(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind))
	u.SetName(name)
	if k.namespaced {
		u.SetNamespace("shop")
	}
	containers := []any{map[string]any{"name": "c", "image": "nginx"}}
	switch k.Kind {
	case pods.Kind:
		u.Object["spec"] = map[string]any{"containers": containers}
	case deployments.Kind:
		u.Object["spec"] = map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec": map[string]any{"containers": containers}}}
	case events.Kind:
		u.Object["involvedObject"] = map[string]any{"kind": "Pod", "namespace": "shop", "name": name}
	case gadgets.Kind:
		u.Object["spec"] = map[string]any{"color": "green", "count": int64(7)}
	}
	return u
}

func (w *world) listed(ctx context.Context, t *target) error {
	for _, k := range mirroredKinds {
		err := retry(ctx, func() error {
			resp := t.send(ctx, get(k.all(), "limit", "1"))
			if resp.status != http.StatusOK {
				return fmt.Errorf("%s: %s: %d %s %w", t.name, k.all(), resp.status, resp.body, resp.err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) mirrored(ctx context.Context, t *target) error {
	for _, k := range mirroredKinds {
		err := retry(ctx, func() error {
			resp := t.send(ctx, get(k.all(), "limit", "1"))
			_, rv := listMeta(resp)
			if now := w.versions[k.now()]; number(rv) < number(now) {
				return fmt.Errorf("%s has %s at %q, not at %s (%d %w)", t.name, k.Resource, rv, now, resp.status, resp.err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
