package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/larder-dev/larder/serve/access/listener"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

type world struct {
	*controlplane.ControlPlane
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	larder  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	go func() { _, _ = larder() }() // builds in the background; the call below returns its error
	cp, err := server()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ControlPlane: cp}
	if w.larder, err = larder(); err != nil {
		t.Fatal(err)
	}
	config := cp.Config(controlplane.Writer)
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	if w.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	w.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	return w
}

// namespace creates a namespace with that level of Pod Security, and the ConfigMap kube-root-ca.crt that each namespace
// of a cluster has.
func (w *world) namespace(t *testing.T, name, level string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
	if _, err := w.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	authority := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"},
		Data: map[string]string{"ca.crt": string(w.Config("").CAData)}}
	if _, err := w.client.CoreV1().ConfigMaps(name).Create(t.Context(), authority, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) secret(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := w.client.CoreV1().Secrets(namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// certificate creates the Secret larder-tls, with a certificate for the chart's Services and for loopback.
func (w *world) certificate(t *testing.T, namespaces ...string) {
	t.Helper()
	dir, logger := filepath.Join(t.TempDir(), "tls"), logr.Discard()
	hosts := []string{"127.0.0.1"}
	for _, ns := range namespaces {
		hosts = append(hosts, "larder-node."+ns+".svc", "larder-mirror."+ns+".svc")
	}
	made, err := listener.Generate(listener.Options{Dir: dir, Hosts: hosts, Logger: &logger})
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(dir, "serving.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces {
		w.secret(t, ns, "larder-tls",
			map[string]string{"tls.crt": string(pem), "tls.key": string(pem), "ca.crt": string(made.CA())})
	}
}

// apply sends the objects by server-side apply with strict field validation.
func (w *world) apply(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	if err := w.tryApply(t, metav1.PatchOptions{}, objects...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) tryApply(t *testing.T, o metav1.PatchOptions, objects ...*unstructured.Unstructured) (err error) {
	t.Helper()
	o.FieldManager, o.FieldValidation = "helm", metav1.FieldValidationStrict
	for _, u := range objects {
		gvk := u.GroupVersionKind()
		mapping, e := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if e == nil {
			var data []byte
			if data, e = json.Marshal(u.Object); e == nil {
				_, e = w.dynamic.Resource(mapping.Resource).Namespace(u.GetNamespace()).Patch(t.Context(), u.GetName(),
					types.ApplyPatchType, data, o)
			}
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s %s: %w", gvk.Kind, u.GetName(), e))
		}
	}
	return err
}

func (w *world) remove(t *testing.T, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, u := range objects {
		gvk := u.GroupVersionKind()
		mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err == nil {
			err = w.dynamic.Resource(mapping.Resource).Namespace(u.GetNamespace()).Delete(t.Context(), u.GetName(),
				metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

func (w *world) token(t *testing.T, namespace, name string) string {
	t.Helper()
	made, err := w.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}
