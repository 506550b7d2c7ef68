package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/wire"
)

func TestMain(m *testing.M) {
	if os.Getenv(plugin) != "" {
		credential()
		return
	}
	goleak.VerifyTestMain(m)
}

var seed = flag.Int64("larder.seed", 0, "seed of the generated objects; 0 takes the time")

type answer struct {
	contentType string
	body        []byte
	stream      io.Reader
	seen        *http.Request
}

func (a *answer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.seen = r
	body := a.stream
	if body == nil {
		body = bytes.NewReader(a.body)
	}
	closer, ok := body.(io.ReadCloser)
	if !ok {
		closer = io.NopCloser(body)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.contentType}}, Request: r, Body: closer,
	}, nil
}

func (a *answer) config() *rest.Config {
	c := &rest.Config{Host: "http://server.invalid", Transport: a}
	c.APIPath, c.GroupVersion = "/apis", &schema.GroupVersion{Group: "g", Version: "v1"}
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.ContentType = runtime.ContentTypeProtobuf
	return c
}

func (a *answer) client(t testing.TB) *rest.RESTClient {
	client, err := rest.RESTClientFor(a.config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (a *answer) listWatch(t testing.TB, example runtime.Object) cache.ListerWatcherWithContext {
	c, err := codec.For(example)
	if err != nil {
		t.Fatal(err)
	}
	client := a.client(t)
	return wire.New(func(o metav1.ListOptions) *rest.Request {
		return client.Get().Resource("things").VersionedParams(&o, metav1.ParameterCodec)
	}, codec.NewSent(c, example, true))
}

type format struct {
	contentType string
	encode      func(t testing.TB, obj runtime.Object) []byte
	frame       func(raw []byte, kind watch.EventType) []byte
}

var formats = map[string]format{
	"protobuf": {
		runtime.ContentTypeProtobuf,
		func(t testing.TB, obj runtime.Object) []byte {
			raw, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), obj)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		func(raw []byte, kind watch.EventType) []byte {
			ev := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
			msg, _ := ev.Marshal()
			return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)
		},
	},
	"JSON": {
		runtime.ContentTypeJSON,
		func(t testing.TB, obj runtime.Object) []byte {
			raw, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		func(raw []byte, kind watch.EventType) []byte {
			return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", kind, raw)
		},
	},
}

func newFiller() (*rand.Rand, func(any)) {
	s := *seed
	if s == 0 {
		s = time.Now().UnixNano()
	}
	f := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(s), scheme.Codecs)
	return rand.New(rand.NewSource(s)), f.Fill
}

// TestAsClientGo checks for all kinds of k8s.io/api that lists and events decode to client-go's objects.
func TestAsClientGo(t *testing.T) {
	_, fill := newFiller()
	kinds := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		example, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		listKind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
		if _, ok := example.(metav1.Object); !ok || !scheme.Scheme.Recognizes(listKind) ||
			gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds++
		var objs []runtime.Object
		for range 3 {
			obj, _ := scheme.Scheme.New(gvk)
			fill(obj)
			obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			objs = append(objs, obj)
		}
		for name, f := range formats {
			t.Run(gvk.GroupVersion().String()+"."+gvk.Kind+"/"+name, func(t *testing.T) {
				testList(t, f, listKind, example, objs)
				testEvents(t, f, gvk, example, objs)
			})
		}
	}
	if kinds < 50 {
		t.Errorf("only %d kinds", kinds)
	}
}

func testList(t *testing.T, f format, kind schema.GroupVersionKind, example runtime.Object, objs []runtime.Object) {
	list, err := scheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	if err := meta.SetList(list, objs); err != nil {
		t.Fatal(err)
	}
	m, _ := meta.ListAccessor(list)
	m.SetResourceVersion("17")
	m.SetContinue("more")
	list.GetObjectKind().SetGroupVersionKind(kind)
	a := &answer{contentType: f.contentType, body: f.encode(t, list)}
	theirs, err := a.client(t).Get().Resource("things").Do(t.Context()).Get()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := a.listWatch(t, example).ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := meta.ListAccessor(ours)
	if got.GetResourceVersion() != "17" || got.GetContinue() != "more" {
		t.Errorf("list metadata %+v", got)
	}
	want, err := meta.ExtractList(theirs)
	if err != nil {
		t.Fatal(err)
	}
	have, err := meta.ExtractListWithAlloc(ours)
	if err != nil {
		t.Fatal(err)
	}
	if len(have) != len(want) || len(have) != len(objs) {
		t.Fatalf("%d objects, client-go has %d", len(have), len(want))
	}
	for i := range have {
		same(t, have[i], want[i])
	}
}

func testEvents(t *testing.T, f format, kind schema.GroupVersionKind, example runtime.Object, objs []runtime.Object) {
	a := &answer{contentType: f.contentType}
	types := []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}
	for i, obj := range append(objs[:len(objs):len(objs)], objs[0]) {
		obj = obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(kind)
		a.body = append(a.body, f.frame(f.encode(t, obj), types[i])...)
	}
	a.body = append(a.body, f.frame(f.encode(t, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410, Reason: metav1.StatusReasonExpired,
	}), watch.Error)...)
	theirs, err := a.client(t).Get().Resource("things").Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := a.listWatch(t, example).WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, have := all(theirs), all(ours)
	if len(have) != len(types)+1 || len(have) != len(want) {
		t.Fatalf("%d events, client-go has %d", len(have), len(want))
	}
	for i := range have {
		if have[i].Type != want[i].Type {
			t.Errorf("%s, client-go has %s", have[i].Type, want[i].Type)
		}
		if have[i].Type == watch.Error {
			got := have[i].Object.(*metav1.Status)
			if got.Code != 410 || got.Reason != metav1.StatusReasonExpired {
				t.Errorf("%+v", got)
			}
			continue
		}
		same(t, have[i].Object, want[i].Object)
	}
}

func all(w watch.Interface) (events []watch.Event) {
	for ev := range w.ResultChan() {
		events = append(events, ev)
	}
	return events
}

// same checks that an object equals client-go's, which may have an apiVersion and kind in addition.
func same(t *testing.T, have, want runtime.Object) {
	t.Helper()
	got, err := entry.Decoded(have)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := want.(*unstructured.Unstructured); !ok {
		want = want.DeepCopyObject()
		want.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %#v\nclient-go has %#v", got, want)
	}
	g, err := meta.Accessor(have)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := meta.Accessor(want)
	if entry.RefOf(g) != entry.RefOf(w) || len(g.GetLabels())+len(w.GetLabels()) > 0 &&
		!reflect.DeepEqual(g.GetLabels(), w.GetLabels()) {
		t.Errorf("metadata %+v, client-go has %+v", g, w)
	}
}

// TestUnstructuredAsClientGo compares lists with the dynamic client's: of built-in kinds whose items have no kind, of
// custom resources, and of unusual JSON.
func TestUnstructuredAsClientGo(t *testing.T) {
	example := &unstructured.Unstructured{}
	for name, body := range map[string]string{
		"no kinds":       `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","uid":"u"}},{"metadata":{"name":"b","labels":{"x":"y"}},"spec":{"n":1,"f":1.0,"e":1e3,"big":18446744073709551615,"null":null,"list":[],"map":{}}}]}`,
		"kinds":          `{"apiVersion":"g/v1","kind":"ThingList","metadata":{"resourceVersion":"1","continue":"c"},"items":[{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"a","namespace":"n"}}]}`,
		"metadata last":  `{"apiVersion":"g/v1","kind":"ThingList","items":[{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"a"}}],"metadata":{"resourceVersion":"1"}}`,
		"kind last":      `{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],"metadata":{"resourceVersion":"1"},"kind":"ThingList","apiVersion":"g/v1"}`,
		"spaces":         " {\n \"kind\" : \"ThingList\" , \"apiVersion\":\"g/v1\",\"metadata\":{}, \"items\" : [ { \"metadata\" : { \"name\" : \"a\" } } , {\"metadata\":{\"name\":\"\\u0062\"}} ] } \n",
		"escapes":        `{"kind":"ThingList","apiVersion":"g/v1","metadata":{},"items":[{"metadata":{"name":"a","annotations":{"q\"\\}":"]},{\\\"\ud83d\ude00\u00e9"}}}]}`,
		"a name twice":   `{"kind":"ThingList","apiVersion":"g/v1","metadata":{},"items":[{"metadata":{"name":"a"},"metadata":{"name":"b"}}]}`,
		"no UTF-8":       "{\"kind\":\"ThingList\",\"apiVersion\":\"g/v1\",\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"a\"},\"x\":\"\xff\\ud800\"}]}",
		"null":           `{"kind":"ThingList","apiVersion":"g/v1","metadata":{},"items":null}`,
		"none":           `{"kind":"ThingList","apiVersion":"g/v1","metadata":{},"items":[]}`,
		"more than that": `{"kind":"ThingList","apiVersion":"g/v1","metadata":{},"remaining":{"a":[1,2,{"b":"]}"}]},"items":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := &answer{contentType: runtime.ContentTypeJSON, body: []byte(body)}
			client, err := dynamic.NewForConfig(a.config())
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "things"}).List(t.Context(),
				metav1.ListOptions{})
			if err != nil && name != "null" && name != "none" && name != "more than that" {
				t.Fatal(err)
			}
			ours, err := a.listWatch(t, example).ListWithContext(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			have, _ := meta.ExtractListWithAlloc(ours)
			if theirs == nil {
				theirs = &unstructured.UnstructuredList{}
			}
			if len(have) != len(theirs.Items) {
				t.Fatalf("%d objects, client-go has %d", len(have), len(theirs.Items))
			}
			for i := range have {
				same(t, have[i], &theirs.Items[i])
				if have[i].GetObjectKind().GroupVersionKind() != theirs.Items[i].GroupVersionKind() {
					t.Errorf("%v, client-go has %v", have[i].GetObjectKind().GroupVersionKind(), theirs.Items[i].GroupVersionKind())
				}
			}
		})
	}
}

func bodies(t testing.TB) map[string][]byte {
	out := map[string][]byte{}
	for name, f := range formats {
		out[name] = f.encode(t, &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7"},
			Items: []metav1.PartialObjectMetadata{
				{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "5", Labels: map[string]string{"l": "m"}}},
				{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "v", ResourceVersion: "6"}},
			},
		})
	}
	return out
}

// TestCutOff checks that an answer that breaks off at any byte is an error that a reflector recognizes.
func TestCutOff(t *testing.T) {
	for name, whole := range bodies(t) {
		for n := range len(whole) {
			a := &answer{contentType: formats[name].contentType, body: whole[:n]}
			_, err := a.listWatch(t, &metav1.PartialObjectMetadata{}).ListWithContext(t.Context(), metav1.ListOptions{})
			switch {
			case err == nil && name == "protobuf": // protobuf has no mark of a list's end; HTTP has
			case err == nil:
				t.Errorf("%s of %d bytes is a list after %d", name, len(whole), n)
			case !strings.Contains(err.Error(), "reading response body") && !strings.Contains(err.Error(), "list"):
				t.Errorf("%s after %d bytes: %v", name, n, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410, Reason: metav1.StatusReasonExpired,
		Message: "too old",
	}
	huge := binary.AppendUvarint([]byte("k8s\x00\x12"), 1<<40)
	for name, tt := range map[string]struct {
		body []byte
		want string
	}{
		"empty":              {nil, "empty answer"},
		"HTML":               {[]byte("<html>"), "neither protobuf nor JSON"},
		"CBOR":               {[]byte{0xd9, 0xd9, 0xf7}, "neither protobuf nor JSON"},
		"a table":            {[]byte(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`), `"Table"`},
		"an object":          {[]byte(`{"kind":"Pod","metadata":{"name":"a"}}`), "GET /apis/g/v1/things"},
		"a list of nothing":  {[]byte(`{"kind":"PodList","metadata":{"resourceVersion":"5"}}`), `"PodList"`},
		"no kind":            {[]byte(`{}`), "something else than a list"},
		"a JSON status":      {formats["JSON"].encode(t, status), "too old"},
		"a status":           {formats["protobuf"].encode(t, status), "too old"},
		"wrong brackets":     {[]byte(`{"kind":"ThingList","items":[{]]}`), "malformed JSON"},
		"items no array":     {[]byte(`{"kind":"ThingList","items":{}}`), "malformed JSON"},
		"an item no object":  {[]byte(`{"kind":"ThingList","items":[5]}`), "does not fit the type"},
		"a huge length":      {huge, "unexpected EOF"},
		"a long varint":      {[]byte("k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "malformed protobuf"},
		"a group":            {[]byte("k8s\x00\x0b"), "malformed protobuf"},
		"more than there is": {[]byte("k8s\x00\x0a\x02\x0a\xff"), "malformed protobuf"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answer{contentType: "any", body: tt.body}
			_, err := a.listWatch(t, &metav1.PartialObjectMetadata{}).ListWithContext(t.Context(), metav1.ListOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWatchOfGarbage(t *testing.T) {
	for name, tt := range map[string]struct {
		body, want string
	}{
		"nothing":     {"", ""},
		"cut off":     {`{"type":"ADDED","obj`, ""},
		"cut frame":   {"\x00\x00\x00\x09\x0a", ""},
		"HTML":        {"<html>", "neither protobuf nor JSON"},
		"no object":   {`{"type":"ADDED"}`, "without an object"},
		"no kind":     {"\x00\x00\x00\x00", "without an object"},
		"large frame": {"\x7f\x00\x00\x00", "neither protobuf nor JSON"},
		"garbage":     {`{"type":"ADDED","object":{"metadata":5}}`, "does not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &answer{body: []byte(tt.body)}
			w, err := a.listWatch(t, &metav1.PartialObjectMetadata{}).WatchWithContext(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			events := all(w)
			if tt.want == "" {
				if len(events) > 0 {
					t.Errorf("%+v", events)
				}
				return
			}
			if len(events) != 1 || events[0].Type != watch.Error ||
				!strings.Contains(events[0].Object.(*metav1.Status).Message, tt.want) {
				t.Errorf("got %+v, want an error with %q", events, tt.want)
			}
		})
	}
}

type endless struct{ closed chan struct{} }

func (e endless) Read([]byte) (int, error) { <-e.closed; return 0, errors.New("closed") }
func (e endless) Close() error             { close(e.closed); return nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestStop checks that Stop ends a watch that waits for the server, and a watch whose events are not received.
func TestStop(t *testing.T) {
	event := formats["JSON"].frame([]byte(`{"kind":"Thing","metadata":{"name":"a"}}`), watch.Added)
	for name, body := range map[string]func() io.ReadCloser{
		"waits":   func() io.ReadCloser { return endless{make(chan struct{})} },
		"is full": func() io.ReadCloser { return io.NopCloser(bytes.NewReader(bytes.Repeat(event, 1000))) },
	} {
		t.Run(name, func(t *testing.T) {
			a := &answer{}
			c := a.config()
			c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: body(), Request: r}, nil
			})
			client, err := rest.RESTClientFor(c)
			if err != nil {
				t.Fatal(err)
			}
			lw := wire.New(func(metav1.ListOptions) *rest.Request { return client.Get() },
				codec.NewSent(codec.Unstructured(), &unstructured.Unstructured{}, false))
			w, err := lw.WatchWithContext(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w.Stop()
			if n := len(all(w)); n > 100 {
				t.Errorf("%d events after Stop", n)
			}
		})
	}
}

// FuzzList checks that any answer is a list or an error, and that each object is decoded or reports an error.
func FuzzList(f *testing.F) {
	for _, body := range bodies(f) {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := &answer{body: body}
		for _, example := range []runtime.Object{&metav1.PartialObjectMetadata{}, &unstructured.Unstructured{}} {
			list, err := a.listWatch(t, example).ListWithContext(t.Context(), metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, obj := range list.(*wire.List).Items {
				decoded, err := entry.Decoded(obj)
				if err != nil {
					continue
				}
				have, _ := meta.Accessor(obj)
				want, err := meta.Accessor(decoded)
				if err != nil || entry.RefOf(have) != entry.RefOf(want) {
					t.Fatalf("%q: %+v, decoded %+v, %v", body, have, want, err)
				}
			}
		}
	})
}

func FuzzWatch(f *testing.F) {
	obj := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "a"},
	}
	for _, format := range formats {
		f.Add(format.frame(format.encode(f, obj), watch.Added))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := &answer{body: body}
		w, err := a.listWatch(t, &metav1.PartialObjectMetadata{}).WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range all(w) {
			if ev.Object == nil {
				t.Fatalf("%q: %+v", body, ev)
			}
		}
	})
}
