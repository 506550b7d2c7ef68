package kubectl

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

type creator struct {
	t      *testing.T
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newCreator(t *testing.T) *creator {
	t.Helper()
	return newCreatorOf(t, server)
}

func newCreatorOf(t *testing.T, server *controlplane.ControlPlane) *creator {
	t.Helper()
	config := server.Config(controlplane.Writer)
	config.WarningHandler = rest.NoWarnings{} // the tests use deprecated versions on purpose
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &creator{t: t, client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))}
}

func (c *creator) createAll(file string) {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		c.t.Fatal(err)
	}
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var u unstructured.Unstructured
		err := docs.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.t.Fatal(err)
		}
		c.create(&u)
	}
}

func (c *creator) create(u *unstructured.Unstructured) {
	c.t.Helper()
	ctx := c.t.Context()
	r := c.resource(u)
	status, subresource := u.Object["status"], "status"
	if u.GetKind() == "CertificateSigningRequest" {
		subresource = "approval"
	}
	created, err := r.Create(ctx, u, metav1.CreateOptions{})
	if err != nil {
		c.t.Errorf("creating %s %s: %v", u.GetKind(), u.GetName(), err)
		return
	}
	if status != nil && created.Object["status"] == nil || status != nil && u.GetKind() != "Gadget" {
		created.Object["status"] = status
		if _, err := r.Update(ctx, created, metav1.UpdateOptions{}, subresource); err != nil {
			c.t.Errorf("the %s of %s %s: %v", subresource, u.GetKind(), u.GetName(), err)
		}
	}
	if u.GetAnnotations()["test/delete"] == "" {
		return
	}
	if err := r.Delete(ctx, u.GetName(), metav1.DeleteOptions{}); err != nil {
		c.t.Fatalf("deleting %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// resource returns the client for an object. It waits, because a new kind is served some time after its definition.
func (c *creator) resource(u *unstructured.Unstructured) dynamic.ResourceInterface {
	c.t.Helper()
	gvk := u.GroupVersionKind()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for {
		m, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err == nil {
			r := c.client.Resource(m.Resource)
			if _, err = r.List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
				if m.Scope.Name() == meta.RESTScopeNameRoot {
					return r
				}
				return r.Namespace(u.GetNamespace())
			}
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("%s is not served: %v", gvk, err)
		case <-time.After(50 * time.Millisecond):
			c.mapper.Reset()
		}
	}
}

func (c *creator) createSigningRequests() {
	c.t.Helper()
	for name, condition := range map[string]string{"waiting": "", "approved": "Approved", "denied": "Denied"} {
		spec := map[string]any{"request": signingRequest(c.t), "signerName": "example.com/signer",
			"usages": []any{"client auth"}}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
			"metadata": map[string]any{"name": name}, "spec": spec,
		}}
		if condition != "" {
			spec["expirationSeconds"] = int64(7200)
			u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True",
				"reason": "Test"}}}
		}
		c.create(u)
	}
}

func signingRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x"}},
		key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}
