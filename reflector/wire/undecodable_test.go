package wire_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/wire"
)

// pod returns the JSON of a pod whose spec.priority is the given text, which may have the wrong type.
func pod(name, priority string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"n","uid":"u",`+
		`"resourceVersion":"5"},"spec":{"priority":%s}}`, name, priority)
}

func podList(items ...string) []byte {
	return fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[%s]}`,
		strings.Join(items, ","))
}

// TestOneUndecodableOfAList checks that the other objects of a list are listed if one object cannot be decoded, and
// that the error names the field.
func TestOneUndecodableOfAList(t *testing.T) {
	a := &answer{contentType: runtime.ContentTypeJSON, body: podList(pod("a", "1"), pod("b", `"secret"`), pod("c", "3"))}
	list, err := a.listWatch(t, &corev1.Pod{}).ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, obj := range list.(*wire.List).Items {
		u := obj.(*entry.Undecoded)
		_, err := u.Object()
		got = append(got, fmt.Sprint(u.Key, " ", err == nil))
		if u.Key == "n/b" && (err == nil || !strings.Contains(err.Error(), "spec.priority") ||
			strings.Contains(err.Error(), "secret") || u.ResourceVersion != "5") {
			t.Errorf("%+v: %v", u.Entry, err)
		}
	}
	if !slices.Equal(got, []string{"n/a true", "n/b false", "n/c true"}) {
		t.Errorf("listed %q", got)
	}
}

// TestUndecodableEvent checks that an event whose object cannot be decoded ends the watch with client-go's error,
// unless a list has reported the object. The DELETED event of the object is delivered.
func TestUndecodableEvent(t *testing.T) {
	a := &answer{contentType: runtime.ContentTypeJSON}
	lw := a.listWatch(t, &corev1.Pod{})
	events := func(o metav1.ListOptions) (got []string) {
		t.Helper()
		a.body = nil
		for _, typ := range []watch.EventType{watch.Added, watch.Deleted, watch.Modified, watch.Added} {
			object := map[watch.EventType]string{watch.Added: pod("a", "1")}[typ]
			if object == "" {
				object = pod("b", `"secret"`)
			}
			a.body = append(a.body, formats["JSON"].frame([]byte(object), typ)...)
		}
		w, err := lw.WatchWithContext(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range all(w) {
			line := string(ev.Type)
			if status, ok := ev.Object.(*metav1.Status); ok {
				line += " " + string(status.Details.Causes[len(status.Details.Causes)-1].Type)
				if !strings.Contains(status.Message, "n/b") || !strings.Contains(status.Message, "spec.priority") ||
					strings.Contains(status.Message, "secret") {
					t.Errorf("message %q", status.Message)
				}
			}
			got = append(got, line)
		}
		return got
	}
	list := func(items ...string) {
		t.Helper()
		a.body = podList(items...)
		if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	refused, passed := []string{"ADDED", "DELETED", "ERROR ClientWatchDecoding"}, []string{"ADDED", "DELETED", "MODIFIED",
		"ADDED"}
	if got := events(metav1.ListOptions{}); !slices.Equal(got, refused) {
		t.Errorf("unknown: %q", got)
	}
	list(pod("a", "1"), pod("b", `"secret"`))
	if got := events(metav1.ListOptions{}); !slices.Equal(got, passed) {
		t.Errorf("listed: %q", got)
	}
	list(pod("a", "1"), pod("b", "2"))
	if got := events(metav1.ListOptions{}); !slices.Equal(got, refused) {
		t.Errorf("repaired, and broken again: %q", got)
	}
}

// TestOnlyACutOffListIsCutOff checks that a list that could be read to its end is not reported as an answer that broke
// off. A reflector would request smaller pages for that error.
func TestOnlyACutOffListIsCutOff(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want bool
	}{
		"no metadata": {string(podList(`{"metadata":5}`)), false},
		"no list":     {`{"kind":"Table","rows":[]}`, false},
		"malformed":   {`{"kind":"PodList","items":[{]]}`, false},
		"HTML":        {"<html>", false},
		"cut off":     {`{"kind":"PodList","items":[`, true},
		"empty":       {"", true},
	} {
		a := &answer{contentType: runtime.ContentTypeJSON, body: []byte(tt.body)}
		_, err := a.listWatch(t, &corev1.Pod{}).ListWithContext(t.Context(), metav1.ListOptions{})
		if err == nil || strings.Contains(err.Error(), "reading response body") != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// measure is an empty part of an answer's body. A read of it measures the size of the heap.
type measure struct{ heap uint64 }

func (m *measure) Read([]byte) (n int, err error) {
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	m.heap = stats.HeapAlloc
	return 0, io.EOF
}

// TestListIsNotHeld checks that the JSON of a long list is not held in memory until its end, although the kind comes
// after the items, as in lists of custom resources.
func TestListIsNotHeld(t *testing.T) {
	const items, size = 400, 100 << 10
	parts := []io.Reader{strings.NewReader(`{"apiVersion":"g/v1","items":[`)}
	space := bytes.Repeat([]byte(" "), size) // white space, which no object's payload contains
	for n := range items {
		parts = append(parts, strings.NewReader(strings.Repeat(",", min(n, 1))+fmt.Sprintf(
			`{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"a%d"}`, n)), bytes.NewReader(space), strings.NewReader("}"))
	}
	end := &measure{}
	parts = append(parts, end, strings.NewReader(`],"kind":"ThingList","metadata":{"resourceVersion":"1"}}`))
	list := listThings(t, io.MultiReader(parts...))
	if len(list) != items {
		t.Errorf("%d items", len(list))
	}
	if most := uint64(items * size / 2); end.heap > most {
		t.Errorf("%d MB are held at the end of %d MB", end.heap>>20, items*size>>20)
	}
}

func listThings(t *testing.T, body io.Reader) []runtime.Object {
	t.Helper()
	config := (&answer{}).config()
	config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body), Request: r}, nil
	})
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	lw := wire.New(func(metav1.ListOptions) *rest.Request { return client.Get() },
		codec.NewSent(codec.Unstructured(), &unstructured.Unstructured{}, false))
	list, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.(*wire.List).Items
}

// TestItemsWaitForTheirKind checks that items without a kind receive their list's kind, even if it follows them.
func TestItemsWaitForTheirKind(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"items":[`)
	const items = 200
	for n := range items {
		kind := ""
		if n%7 == 3 {
			kind = `"apiVersion":"g/v1","kind":"Other",`
		}
		fmt.Fprintf(&body, `%s{%s"metadata":{"name":"a%03d"},"x":%q}`, strings.Repeat(",", min(n, 1)), kind, n,
			strings.Repeat("x", 20<<10))
	}
	body.WriteString(`],"kind":"ThingList","apiVersion":"g/v1"}`)
	list := listThings(t, strings.NewReader(body.String()))
	for n, obj := range list {
		want := "Thing"
		if n%7 == 3 {
			want = "Other"
		}
		u := obj.(*entry.Undecoded)
		if kind := u.GroupVersionKind().Kind; kind != want || u.Key != fmt.Sprintf("a%03d", n) {
			t.Fatalf("item %d: %s %s", n, kind, u.Key)
		}
	}
	if len(list) != items {
		t.Errorf("%d items", len(list))
	}
}

// TestCBOR checks that a server that answers in CBOR is asked for JSON from then on.
func TestCBOR(t *testing.T) {
	list := map[string]any{"kind": "ThingList", "apiVersion": "g/v1", "metadata": map[string]any{"resourceVersion": "9"},
		"items": []any{map[string]any{"kind": "Thing", "apiVersion": "g/v1", "metadata": map[string]any{"name": "a"}}}}
	inCBOR, err := direct.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := (&unstructured.Unstructured{Object: list}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	featurestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	for name, tag := range map[string]string{"tagged": "\xd9\xd9\xf7", "bare": ""} {
		t.Run(name, func(t *testing.T) {
			accepts := []string{}
			config := (&answer{}).config()
			config.AcceptContentTypes = "application/json;q=0.9,application/cbor;q=1" // as client-go's dynamic client does
			config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				accept := r.Header.Get("Accept")
				accepts = append(accepts, accept)
				body := append([]byte(tag), inCBOR...)
				if !strings.Contains(accept, "cbor") {
					body = inJSON
				}
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
			})
			client, err := rest.RESTClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			lw := wire.New(func(metav1.ListOptions) *rest.Request { return client.Get() },
				codec.NewSent(codec.Unstructured(), &unstructured.Unstructured{}, false))
			for range 2 {
				got, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
				if err != nil || len(got.(*wire.List).Items) != 1 {
					t.Fatalf("%v, %v", got, err)
				}
			}
			if len(accepts) != 3 || accepts[1] != runtime.ContentTypeJSON || accepts[2] != runtime.ContentTypeJSON {
				t.Errorf("asked for %q", accepts)
			}
		})
	}
}
