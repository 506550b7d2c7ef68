package informer_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// newerFields simulates a server of a later minor version. Its ConfigMaps have a field colour, which client-go's types
// lack.
type newerFields struct{ next http.RoundTripper }

func (n newerFields) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity")
	a, err := n.next.RoundTrip(r)
	if err != nil || r.URL.Query().Get("watch") != "" || strings.Contains(r.Header.Get("Accept"), "PartialObject") ||
		!strings.HasSuffix(r.URL.Path, "/configmaps") {
		return a, err
	}
	body, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	if strings.Contains(a.Header.Get("Content-Type"), "protobuf") {
		body = append([]byte("k8s\x00"), editField(body[4:], 2, func(list []byte) []byte {
			return editField(list, 2, func(item []byte) []byte {
				return protowire.AppendString(protowire.AppendTag(item, 9999, protowire.BytesType), "red")
			})
		})...)
	} else {
		body = bytes.ReplaceAll(body, []byte(`"data":{`), []byte(`"colour":"red","data":{`))
	}
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
	a.Header.Del("Content-Length")
	return a, err
}

// editField returns a protobuf message in which fn is applied to each value of the numbered field.
func editField(msg []byte, number protowire.Number, fn func([]byte) []byte) (out []byte) {
	for len(msg) > 0 {
		n, typ, size := protowire.ConsumeTag(msg)
		whole := size + protowire.ConsumeFieldValue(n, typ, msg[size:])
		if n == number && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(msg[size:])
			out = protowire.AppendBytes(protowire.AppendTag(out, n, typ), fn(bytes.Clone(value)))
		} else {
			out = append(out, msg[:whole]...)
		}
		msg = msg[whole:]
	}
	return out
}

type newerRig struct {
	*testing.T
	api  *fakeapi.Server
	path string
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func newNewerRig(t *testing.T) *newerRig {
	t.Helper()
	api := fakeapi.New(fakeapi.Options{})
	if err := api.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Stop)
	must(t)(api.Create(configMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Data: map[string]string{"a": "b"},
	}))
	return &newerRig{t, api, filepath.Join(t.TempDir(), "larder.db")}
}

func (r *newerRig) run(
	contentType string, example runtime.Object, o informer.Options, look func(i *informer.Informer),
) {
	r.Helper()
	config := rest.CopyConfig(r.api.Config())
	config.ContentType = contentType
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return newerFields{next} })
	client := value(kubernetes.NewForConfig(config))(r.T).CoreV1().RESTClient()
	defer client.(*rest.RESTClient).Client.CloseIdleConnections()
	o.Store = value(store.Open(r.path, store.Options{}))(r.T)
	o.Identity.GroupVersionResource = configMaps
	o.ClusterID = func(context.Context) (string, error) { return "here", nil }
	o.OpenAPIHash = func(context.Context) (string, error) { return "one", nil }
	i := value(informer.New(requests.ListWatch(client, o.Identity), example, o))(r.T)
	ctx, cancel := context.WithCancel(r.Context())
	var done sync.WaitGroup
	done.Go(func() { i.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		r.Fatal("it has not synced")
	}
	look(i)
	cancel()
	done.Wait()
	if err := o.Store.Close(); err != nil {
		r.Error(err)
	}
}

// TestNewerServer checks that readers get fields that the Go types lack, even if the server did not seem newer when the
// objects were stored: during an upgrade another API server may answer the version request. Issue 37.
func TestNewerServer(t *testing.T) {
	r := newNewerRig(t)
	example := &unstructured.Unstructured{}
	example.SetAPIVersion("v1")
	example.SetKind("ConfigMap")
	run := func(version, wantEncoding string, wantLists int, wantColour any) {
		t.Helper()
		o := informer.Options{Codec: codec.UnstructuredWith(scheme.Scheme), Residency: store.None,
			Identity:      entry.Identity{Representation: entry.Unstructured},
			ServerVersion: func(context.Context) (string, error) { return version, nil }}
		r.run("", example, o, func(i *informer.Informer) {
			obj, _, err := i.GetStore().GetByKey("default/c")
			if err != nil {
				t.Fatal(err)
			}
			s := i.Status()
			if colour := obj.(*unstructured.Unstructured).Object["colour"]; colour != wantColour {
				t.Errorf("%s: colour is %v, want %v", version, colour, wantColour)
			}
			if !strings.HasPrefix(s.Encoding, wantEncoding) || s.Reflector.Lists != wantLists {
				t.Errorf("%s: encoding %q, %d lists %v", version, s.Encoding, s.Reflector.Lists, s.Reflector.Relists)
			}
			if hidden := wantColour == nil && version != "v1.37.0"; hidden != (s.Rewriting == reflector.ReasonEncoding) {
				t.Errorf("%s: rewriting %q", version, s.Rewriting)
			}
		})
	}
	run("v1.37.0", "protobuf", 1, nil)
	// The informer will list within ten minutes, or at once if the watch has expired.
	run("v1.38.0", "JSON: the server, 1.38,", 0, nil)
	must(t)(r.api.Create(configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}))
	r.api.Compact()
	run("v1.38.0", "JSON: the server, 1.38,", 1, "red")
	run("v1.37.0", "JSON: the server, 1.38,", 0, "red")
	run("v1.38.0", "JSON: the server, 1.38,", 0, "red")
	run("v1.39.0", "JSON: the server, 1.39,", 0, "red") // objects stored as JSON have all fields, so no list is needed
}

// TestServerUpgradedDuringARun checks that after an upgrade of the server the informer requests JSON, and will list the
// objects that it stored from protobuf.
func TestServerUpgradedDuringARun(t *testing.T) {
	r := newNewerRig(t)
	example := &unstructured.Unstructured{}
	example.SetAPIVersion("v1")
	example.SetKind("ConfigMap")
	var version atomic.Value
	version.Store("v1.37.0")
	o := informer.Options{Codec: codec.UnstructuredWith(scheme.Scheme),
		Identity:      entry.Identity{Representation: entry.Unstructured},
		ServerVersion: func(context.Context) (string, error) { return version.Load().(string), nil }}
	r.run("", example, o, func(i *informer.Informer) {
		if s := i.Status(); s.Encoding != "protobuf" {
			t.Errorf("encoding %q", s.Encoding)
		}
		version.Store("v1.38.0")
		if err := r.api.Restart(); err != nil {
			t.Fatal(err)
		}
		for end := time.After(time.Minute); ; {
			s := i.Status()
			if strings.HasPrefix(s.Encoding, "JSON: the server, 1.38,") && s.Rewriting == reflector.ReasonEncoding {
				return
			}
			select {
			case <-time.After(time.Millisecond):
			case <-end:
				t.Fatalf("encoding %q, rewriting %q", s.Encoding, s.Rewriting)
			}
		}
	})
}

// colouredConfigMap is the ConfigMap type of a program whose Go types have the field colour.
type colouredConfigMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
	Colour            string            `json:"colour"`
}

func (c *colouredConfigMap) DeepCopyObject() runtime.Object {
	d := *c
	c.ObjectMeta.DeepCopyInto(&d.ObjectMeta)
	return &d
}

// TestNewerTypes checks that indexes and handlers, also durable ones, get the new fields of newer Go types without a
// list if the objects are stored as the server sent them. Issue 37.
func TestNewerTypes(t *testing.T) {
	r := newNewerRig(t)
	old, err := codec.ForMsgpack(&corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	resets := make(chan string, 9)
	received := make(chan string, 9)
	remember := func(i *informer.Informer) {
		_, err := i.Durable().Add("d", durable.Handler{
			OnReset: func(_ context.Context, why consumer.ResetReason) error { resets <- string(why); return nil },
			OnChange: func(_ context.Context, c consumer.Change) error {
				colour := ""
				if now, ok := c.Object.(*colouredConfigMap); ok {
					colour = now.Colour
				}
				received <- c.Key + " " + colour
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	next := func(c chan string) string {
		select {
		case s := <-c:
			return s
		case <-time.After(time.Minute):
			return "nothing"
		}
	}
	acknowledged := func(i *informer.Informer) { // unacknowledged changes would be delivered in the next run too
		for end := time.After(time.Minute); ; {
			if d := i.Status().Durable[0]; d.Behind == 0 && !d.Replaying {
				return
			}
			select {
			case <-time.After(time.Millisecond):
			case <-end:
				t.Fatalf("not acknowledged: %+v", i.Status().Durable)
			}
		}
	}
	r.run("", &corev1.ConfigMap{}, informer.Options{Codec: old}, func(i *informer.Informer) {
		remember(i)
		equal(t, "the first build", []string{next(resets), next(received)}, []string{"new", "default/c "})
		acknowledged(i)
	})
	byColour := cache.Indexers{"colour": func(obj any) ([]string, error) {
		return []string{obj.(*colouredConfigMap).Colour}, nil
	}}
	for n := range 2 {
		r.run("", &colouredConfigMap{}, informer.Options{Indexers: byColour}, func(i *informer.Informer) {
			if s := i.Status(); s.Reflector.Lists != 0 || s.Rewriting != "" {
				t.Errorf("%d lists %v, rewriting %q", s.Reflector.Lists, s.Reflector.Relists, s.Rewriting)
			}
			if keys, err := i.GetIndexer().IndexKeys("colour", "red"); err != nil || !slices.Equal(keys, []string{"default/c"}) {
				t.Errorf("by colour: %q, %v", keys, err)
			}
			seen := make(chan string, 9)
			_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
				seen <- obj.(*colouredConfigMap).Colour
			}})
			if err != nil {
				t.Fatal(err)
			}
			if got := next(seen); got != "red" {
				t.Errorf("a handler was given the colour %q", got)
			}
			if remember(i); n == 0 {
				equal(t, "the second build", []string{next(resets), next(received)}, []string{"types", "default/c red"})
			}
			acknowledged(i)
		})
	}
	if len(received)+len(resets) > 0 {
		t.Errorf("received again: %d resets, %d objects", len(resets), len(received))
	}
}

// TestTypedPayloads checks which objects are stored in the bytes that the server sent. Protobuf is. JSON of a type that
// is stored as protobuf is not, because it passes through the Go type.
func TestTypedPayloads(t *testing.T) {
	for contentType, asSent := range map[string]bool{runtime.ContentTypeProtobuf: true, runtime.ContentTypeJSON: false} {
		r := newNewerRig(t)
		r.run(contentType, &corev1.ConfigMap{}, informer.Options{}, func(i *informer.Informer) {
			info, err := informer.Store(i).Info(t.Context())
			if err != nil || codec.AsSent(info.Attributes.Schema) != asSent {
				t.Errorf("%s: stored as %q, %v", contentType, info.Attributes.Schema, err)
			}
		})
	}
}
