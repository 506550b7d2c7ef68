package informer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/reflector"
)

// TestTransformVersion checks that the stored objects are served until a list has rewritten them. Handlers then get the
// differences, although no resourceVersion has changed.
func TestTransformVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mark := func(value string) func(obj any) (any, error) {
			return func(obj any) (any, error) {
				p := obj.(*corev1.Pod).DeepCopy()
				if p.Name == "1" {
					p.Labels["value"] = value
				}
				return p, nil
			}
		}
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		r.o.TransformVersion = "1"
		i := r.open()
		if err := i.SetTransform(mark("first")); err != nil {
			t.Fatal(err)
		}
		r.run()
		r.close()

		r.o.TransformVersion = "2"
		r.srv.setFail(refuse)
		h := &recorder{}
		i = r.open()
		if err := i.SetTransform(mark("second")); err != nil {
			t.Fatal(err)
		}
		r.run(h)
		equal(t, "offline", h.take(), []string{"add a/1@101=first initial", "add a/2@102=x initial"})
		if s := i.Status(); s.Synced || s.Rewriting != reflector.ReasonTransform {
			t.Errorf("offline: %+v", s)
		}
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "online", h.take(), []string{"update a/1@101=first to a/1@101=second"})
		if s := i.Status(); !s.Synced || s.Rewriting != "" || s.Reflector.Relists[reflector.ReasonTransform] != 1 {
			t.Errorf("online: %+v", s)
		}
		r.close()
		lists, _ := r.srv.requests()
		i = r.open()
		if err := i.SetTransform(mark("second")); err != nil {
			t.Fatal(err)
		}
		r.run()
		if now, _ := r.srv.requests(); now != lists || !slices.Contains(r.stored(), "a/1@101=second") {
			t.Errorf("after that: %d lists, store %q", now-lists, r.stored())
		}
		r.close()
	})
}

// TestAnotherCluster checks that a replaced cluster is detected although the stored resourceVersion is valid in both
// clusters.
func TestAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cluster := "one"
		r := newRig(t)
		r.o.ClusterID = func(context.Context) (string, error) { return cluster, nil }
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		r.start()
		r.close()
		cluster = "two"
		r.srv.delete("a/1")
		h := &recorder{}
		i := r.start(h)
		time.Sleep(time.Minute)
		synctest.Wait()
		known := map[string]string{}
		replay(t, known, h.take())
		equal(t, "handler", sortedValues(known), r.srv.state())
		if s := i.Status(); s.Reflector.Relists[reflector.ReasonCluster] != 1 || !s.Synced {
			t.Errorf("status: %+v", s)
		}
		r.close()
		i = r.start()
		if s := i.Status(); len(s.Reflector.Relists) != 0 {
			t.Errorf("the new cluster's id was not stored: %+v", s.Reflector)
		}
		r.close()
	})
}

// TestClusterIDErrors checks that an unreachable server counts as a failed connection. A server that refuses to return
// its id counts as the cluster that the file was filled from.
func TestClusterIDErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var fail atomic.Pointer[error]
		r := newRig(t)
		r.o.ClusterID = func(context.Context) (string, error) {
			if err := fail.Load(); err != nil {
				return "one", *err
			}
			return "one", nil
		}
		r.srv.write("a/1", "x")
		r.start()
		r.close()

		refused := errors.New("connection refused")
		fail.Store(&refused)
		i := r.start()
		time.Sleep(time.Minute)
		if s := i.Status(); s.Synced || s.Err == nil {
			t.Errorf("refused: %+v", s)
		}
		var forbidden error = apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil)
		fail.Store(&forbidden)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := i.Status(); !s.Synced || s.Err != nil || len(s.Reflector.Relists) != 0 {
			t.Errorf("forbidden: %+v", s)
		}
		r.srv.compact() // a list while the cluster id cannot be read keeps the stored id
		time.Sleep(time.Minute)
		synctest.Wait()
		info, err := informer.Store(i).Info(t.Context())
		if err != nil || info.Attributes.ClusterID != "one" {
			t.Errorf("stored cluster id %q, %v", info.Attributes.ClusterID, err)
		}
		r.close()
	})
}

// stoppedWithAnotherSchema returns a stopped rig whose file holds pod a/1. Since then the server has applied a new
// default to the pod, under its old resourceVersion.
func stoppedWithAnotherSchema(t *testing.T) *rig {
	t.Helper()
	hash := "one"
	r := newRig(t)
	r.o.OpenAPIHash = func(context.Context) (string, error) { return hash, nil }
	r.srv.write("a/1", "x")
	r.start()
	r.close()
	hash = "two"
	r.srv.mu.Lock()
	r.srv.pods["a/1"].Labels["value"] = "defaulted"
	r.srv.mu.Unlock()
	return r
}

func TestOpenAPIHash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := stoppedWithAnotherSchema(t)
		h := &recorder{}
		i := r.start(h)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		// The list waits for a random part of openAPIJitter, and so may have ended.
		s := i.Status()
		if !s.Synced || s.Rewriting != reflector.ReasonOpenAPI && s.Reflector.Relists[reflector.ReasonOpenAPI] == 0 {
			t.Errorf("at first: %+v", s)
		}
		time.Sleep(openAPIJitter + time.Minute)
		synctest.Wait()
		equal(t, "handler", h.take(), []string{"add a/1@101=x initial", "update a/1@101=x to a/1@101=defaulted"})
		if s := i.Status(); s.Reflector.Relists[reflector.ReasonOpenAPI] != 1 || s.Rewriting != "" {
			t.Errorf("in the end: %+v", s)
		}
		time.Sleep(3 * openAPIJitter)
		synctest.Wait()
		if s := i.Status(); s.Reflector.Relists[reflector.ReasonOpenAPI] != 1 {
			t.Errorf("listed again: %+v", s)
		}
		r.close()
	})
}

// TestRewriteWithAnotherReason checks that a list for an expired watch also replaces objects with unchanged
// resourceVersions if the schema has changed.
func TestRewriteWithAnotherReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := stoppedWithAnotherSchema(t)
		r.srv.write("a/2", "x")
		r.srv.compact()
		h := &recorder{}
		i := r.start(h)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "handler", h.take(), []string{"add a/1@101=x initial", "update a/1@101=x to a/1@101=defaulted",
			"add a/2@102=x initial"})
		info, err := informer.Store(i).Info(t.Context())
		if err != nil || info.Attributes.OpenAPI != "two" {
			t.Errorf("stored hash %q, %v", info.Attributes.OpenAPI, err)
		}
		time.Sleep(3 * openAPIJitter)
		synctest.Wait()
		if s := i.Status(); s.Reflector.Relists[reflector.ReasonOpenAPI] != 0 || s.Rewriting != "" {
			t.Errorf("listed for the schema too: %+v", s)
		}
		r.close()
	})
}

// TestOpenAPIHashIsReadHourly checks that a change of the schema during a long run is noticed.
func TestOpenAPIHashIsReadHourly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var reads, version atomic.Int64
		r := newRig(t)
		r.o.OpenAPIHash = func(context.Context) (string, error) {
			reads.Add(1)
			return fmt.Sprint("version ", version.Load()), nil
		}
		r.srv.write("a/1", "x")
		i := r.start()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n, watches := reads.Load(), i.Status().Reflector.Watches; n < 3 || n > 4 || watches < 10 {
			t.Errorf("read %d times in %d connections", n, watches)
		}
		version.Add(1)
		time.Sleep(openAPIEvery + 2*openAPIJitter)
		synctest.Wait()
		if n := i.Status().Reflector.Relists[reflector.ReasonOpenAPI]; n != 1 {
			t.Errorf("%d relists for the new schema", n)
		}
		r.close()
	})
}

// withUnknownSchema returns a stopped rig that listed pods a/x and a/y while the schema's hash could not be read. The
// schema has changed since, and its hash can be read.
func withUnknownSchema(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.srv.write("a/x", "default of schema A")
	r.srv.write("a/y", "default of schema A")
	r.o.OpenAPIHash = func(context.Context) (string, error) {
		return "", apierrors.NewForbidden(schema.GroupResource{}, "openapi", nil)
	}
	r.start()
	r.close()
	r.srv.mu.Lock()
	defer r.srv.mu.Unlock()
	for key, p := range r.srv.pods {
		p = p.DeepCopy()
		p.Labels["value"] = "default of schema B"
		r.srv.pods[key] = p
	}
	r.o.OpenAPIHash = func(context.Context) (string, error) { return "B", nil }
	return r
}

// TestSchemaUnknownAtTheList cites issue 37: the stored objects were listed while the schema's hash could not be read,
// so the next list must compare whole objects.
func TestSchemaUnknownAtTheList(t *testing.T) {
	for _, expired := range []bool{true, false} {
		t.Run(fmt.Sprintf("expired %v", expired), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := withUnknownSchema(t)
				h := &recorder{}
				r.start(h)
				if expired {
					r.srv.compact()
					r.srv.write("a/z", "new")
					r.srv.compact()
				}
				h.take()
				time.Sleep(time.Hour)
				synctest.Wait()
				equal(t, "stored", r.stored(), r.srv.state())
				if updates := h.take(); !slices.Contains(updates,
					"update a/x@101=default of schema A to a/x@101=default of schema B") {
					t.Errorf("the handler received %q", updates)
				}
				s := r.i.Status()
				if relists := s.Reflector.Relists[reflector.ReasonOpenAPI]; s.Rewriting != "" || !expired && relists != 1 {
					t.Errorf("%+v", s)
				}
				for _, change := range s.Unguarded {
					if strings.HasPrefix(change, whatSchema) {
						t.Error(change)
					}
				}
				r.close()
			})
		})
	}
}

// TestMetadataWithoutTheSchema cites issue 37: contents may differ under equal resourceVersions if the schema's hash is
// unknown, old or changed. So the informer must list whole objects instead of metadata.
func TestMetadataWithoutTheSchema(t *testing.T) {
	for name, later := range map[string]func() (string, error){
		"not set": nil,
		"forbidden": func() (string, error) {
			return "", apierrors.NewForbidden(schema.GroupResource{}, "openapi", nil)
		},
		"changed within the hour": func() (string, error) { return "two", nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				read := func() (string, error) { return "one", nil }
				if later != nil {
					r.o.OpenAPIHash = func(context.Context) (string, error) { return read() }
				}
				r.o.ListMetadata = r.srv.listMetadata
				r.srv.fatten()
				for n := range 8 { // with fewer pods, one new pod would make the informer list whole objects
					r.srv.write(fmt.Sprintf("a/p%d", n), "1")
				}
				r.srv.write("a/x", "before")
				r.start()
				r.srv.setFail(func(string, metav1.ListOptions) error { return errors.New("away") })
				r.srv.disconnect()
				r.srv.mu.Lock()
				p := r.srv.pods["a/x"].DeepCopy()
				p.Labels["value"] = "after"
				r.srv.pods["a/x"] = p
				read = later
				r.srv.mu.Unlock()
				r.srv.write("a/y", "new")
				r.srv.compact()
				r.srv.setFail(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "stored", r.stored(), r.srv.state())
				if n := r.fetches(); n != 0 {
					t.Errorf("%d objects were fetched", n)
				}
				r.close()
			})
		})
	}
}

// TestMetadataByACachedHash cites issue 37: another informer of the program read the schema's hash just before the
// schema changed. An expired watch must still lead to a list of whole objects.
func TestMetadataByACachedHash(t *testing.T) {
	for name, due := range map[string]bool{"the hash is due": true, "read within the hour": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				var version atomic.Int64
				hash := requests.NewSchemas(clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprintf(w, `{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=%d"}}}`, version.Load())
				})).Hash(corev1.SchemeGroupVersion)
				r.o.OpenAPIHash, r.o.ListMetadata = hash, r.srv.listMetadata
				r.srv.fatten()
				for n := range 8 { // with fewer pods, one new pod would make the informer list whole objects
					r.srv.write(fmt.Sprintf("a/p%d", n), "1")
				}
				r.srv.write("a/x", "before")
				r.start()
				if due {
					time.Sleep(openAPIEvery + time.Minute)
				}
				r.srv.setFail(func(string, metav1.ListOptions) error { return errors.New("away") })
				r.srv.disconnect()
				if _, err := hash(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				version.Add(1)
				r.srv.mu.Lock()
				p := r.srv.pods["a/x"].DeepCopy()
				p.Labels["value"] = "after"
				r.srv.pods["a/x"] = p
				r.srv.mu.Unlock()
				r.srv.write("a/y", "new")
				r.srv.compact()
				r.srv.setFail(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "stored", r.stored(), r.srv.state())
				if n := r.fetches(); n != 0 {
					t.Errorf("%d objects were fetched", n)
				}
				r.close()
			})
		})
	}
}

// clientOf returns a REST client whose requests fn answers without a network, so that it works in a synctest bubble.
func clientOf(t *testing.T, fn http.HandlerFunc) rest.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://server"},
		&http.Client{Transport: answering(fn)})
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().RESTClient()
}

type answering http.HandlerFunc

func (fn answering) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	fn(w, r)
	return w.Result(), nil
}
