package informer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/reflector"
)

func (s *server) listMetadata(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	whole, err := s.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	pods := whole.(*corev1.PodList)
	out := &metav1.PartialObjectMetadataList{ListMeta: pods.ListMeta}
	for i := range pods.Items {
		out.Items = append(out.Items, metav1.PartialObjectMetadata{ObjectMeta: pods.Items[i].ObjectMeta})
	}
	return out, nil
}

// oneSchema is a function for Options.OpenAPIHash that reports a schema that never changes.
func oneSchema(context.Context) (string, error) { return "one", nil }

// fatten makes pods that are written later so large that a list of their metadata is cheaper than a list of whole pods.
func (s *server) fatten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = strings.Repeat("x", 2*largeBody)
}

func (r *rig) fetches() int { return r.i.Status().Reflector.Fetches }

// TestListByMetadata checks that after an expired watch only changed objects are fetched by name.
func TestListByMetadata(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %v", running), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.ListMetadata, r.o.OpenAPIHash, r.o.PageSize = r.srv.listMetadata, oneSchema, 100
				r.srv.fatten()
				for n := range 250 {
					r.srv.write(fmt.Sprintf("a/p%03d", n), "1")
				}
				h := &recorder{}
				r.start(h)
				h.take()
				if running {
					r.srv.setFail(func(string, metav1.ListOptions) error { return errors.New("away") })
					r.srv.disconnect()
				} else {
					r.close()
				}
				r.srv.takeLog()
				r.srv.write("a/p003", "2")
				r.srv.write("a/p120", "2")
				r.srv.write("a/x", "new")
				r.srv.delete("a/p200")
				r.srv.delete("a/p201")
				r.srv.write("a/p201", "again")
				r.srv.compact()
				if r.srv.setFail(nil); !running {
					r.start(h)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "stored", r.stored(), r.srv.state())
				if n := r.fetches(); n != 4 {
					t.Errorf("%d objects were fetched", n)
				}
				r.close()
			})
		})
	}
}

func TestListByMetadataAndAFailingStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ListMetadata, r.o.OpenAPIHash, r.o.PageSize = r.srv.listMetadata, oneSchema, 100
		r.srv.fatten()
		for n := range 150 {
			r.srv.write(fmt.Sprintf("a/p%03d", n), "1")
		}
		r.start()
		r.close()
		r.srv.write("a/p003", "2")
		r.srv.delete("a/p120")
		r.srv.compact()
		i := r.open()
		f := &faultyStore{Interface: informer.Store(i)}
		informer.SetStore(i, f)
		f.skip = 2
		f.set(errors.New("boom"), 3)
		r.run()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		equal(t, "stored", r.stored(), r.srv.state())
		if f.failed() == 0 {
			t.Error("the store did not fail")
		}
		r.close()
	})
}

func TestMetadataPays(t *testing.T) {
	for name, tt := range map[string]struct {
		body, annotation int
		want             bool
	}{
		"small": {100, 0, false}, "large": {20 << 10, 0, true}, "large metadata": {20 << 10, 10 << 10, false},
		"nothing": {-1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.body, r.srv.annotation = strings.Repeat("x", max(0, tt.body)), strings.Repeat("y", tt.annotation)
				for n := range 3 {
					if tt.body >= 0 {
						r.srv.write(fmt.Sprintf("a/p%d", n), "1")
					}
				}
				r.o.ListMetadata, r.o.OpenAPIHash = r.srv.listMetadata, oneSchema
				r.start()
				r.srv.setFail(func(string, metav1.ListOptions) error { return errors.New("away") })
				r.srv.disconnect()
				r.srv.write("b/new", "1")
				r.srv.compact()
				r.srv.setFail(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := r.i.Status().Reflector.Relists[reflector.ReasonExpired]; n != 1 || r.fetches() > 0 != tt.want {
					t.Errorf("%d lists, %d objects that a list by metadata lacked", n, r.fetches())
				}
				r.close()
			})
		})
	}
}

func TestListMetadataRequest(t *testing.T) {
	var got *http.Request
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(
			[]byte(
				`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"x","uid":"u"}}]}`))
	}))
	defer api.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: api.URL, UserAgent: t.Name()})
	defer client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: "web",
		LabelSelector: "app=a"}
	list, err := requests.ListMetadata(client.CoreV1().RESTClient(), id)(t.Context(),
		metav1.ListOptions{Limit: 2, Continue: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if got.URL.Path != "/api/v1/namespaces/web/configmaps" ||
		got.URL.Query().Encode() != "continue=c&labelSelector=app%3Da&limit=2" ||
		got.Header.Get("Accept") != acceptMetadata {
		t.Errorf("asked for %s, %v", got.URL, got.Header)
	}
	if list.ResourceVersion != "7" || len(list.Items) != 1 || list.Items[0].UID != "u" {
		t.Errorf("got %+v", list)
	}
}

func TestListMetadataOfAServer(t *testing.T) {
	s := fakeapi.New(fakeapi.Options{})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		Data: map[string]string{"k": strings.Repeat("v", 10_000)}}
	if _, err := s.Create(configMaps, cm); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(s.Config())
	defer client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	list, err := requests.ListMetadata(client.CoreV1().RESTClient(),
		entry.Identity{GroupVersionResource: configMaps})(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "x" || list.Items[0].UID == "" ||
		list.ResourceVersion != s.RV() || list.Size() > 1000 {
		t.Errorf("got %+v, %v", list, err)
	}
}
