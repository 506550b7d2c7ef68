package codec

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	discoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
)

// fewestFixtures is the number of kinds in the fixtures of k8s.io/api v0.37.
const fewestFixtures = 190

func allKinds(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, admissionv1.AddToScheme, admissionv1beta1.AddToScheme,
		discoveryv2.AddToScheme, discoveryv2beta1.AddToScheme,
		imagepolicyv1alpha1.AddToScheme, lifecyclev1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var apiDir = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
})

func fixtures(t testing.TB) []string {
	t.Helper()
	dir, err := apiDir()
	if err != nil {
		t.Fatalf("find k8s.io/api: %v", err)
	}
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", "*.json"))
	if err != nil || len(found) < fewestFixtures {
		t.Fatalf("%d fixtures, %v; want at least %d", len(found), err, fewestFixtures)
	}
	for i := range found {
		found[i] = strings.TrimSuffix(found[i], ".json")
	}
	return found
}

func readFixture(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kindOf returns the kind in a fixture's file name, group.version.kind. A watch event does not contain its kind.
func kindOf(path string) *schema.GroupVersionKind {
	parts := strings.Split(filepath.Base(path), ".")
	n := len(parts)
	gvk := schema.GroupVersionKind{Group: strings.Join(parts[:n-2], "."), Version: parts[n-2], Kind: parts[n-1]}
	if gvk.Group == "core" {
		gvk.Group = ""
	}
	return &gvk
}

// compactJSON removes the white space of a fixture, as API servers do. A runtime.RawExtension would keep white space.
func compactJSON(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parseUnstructured(t testing.TB, data []byte) *unstructured.Unstructured {
	t.Helper()
	var m map[string]any
	if err := utiljson.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}

// roundTrip encodes and decodes obj. It checks that equal objects give equal bytes, that Append keeps the given bytes,
// and that the decoded object shares no memory with the encoded bytes.
func roundTrip(t testing.TB, c Codec, obj runtime.Object) runtime.Object {
	t.Helper()
	if err := c.Check(obj); err != nil {
		t.Fatal(err)
	}
	data, err := c.Append([]byte("before"), obj)
	if err != nil {
		t.Fatal(err)
	}
	data, ok := bytes.CutPrefix(data, []byte("before"))
	if !ok {
		t.Fatal("Append did not append")
	}
	again, err := c.Append(nil, obj.DeepCopyObject())
	if err != nil || !bytes.Equal(again, data) {
		t.Fatalf("a copy gives other bytes (%v)", err)
	}
	got, err := c.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] ^= 0xff
	}
	return got
}

func TestFixturesUnstructured(t *testing.T) {
	t.Parallel()
	codec := Unstructured()
	seen := map[string]bool{}
	for _, path := range fixtures(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			asYAML, err := yaml.YAMLToJSON(readFixture(t, path+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, data := range [][]byte{readFixture(t, path+".json"), asYAML} {
				want := parseUnstructured(t, data)
				if got := roundTrip(t, codec, want); !reflect.DeepEqual(got, want) {
					t.Errorf("got %#v\nwant %#v", got, want)
				}
				seen[kindOf(path).String()] = true
			}
		})
	}
	if len(seen) < fewestFixtures {
		t.Errorf("only %d kinds", len(seen))
	}
}

func TestFixturesTyped(t *testing.T) {
	t.Parallel()
	scheme := allKinds(t)
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	seen := map[string]bool{}
	for _, path := range fixtures(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var last runtime.Object
			for _, data := range [][]byte{
				// The YAML fixtures are not tested: their objects are equal, and no server sends YAML.
				compactJSON(t, readFixture(t, path+".json")), readFixture(t, path+".pb"),
			} {
				want, gvk, err := decoder.Decode(data, kindOf(path), nil)
				if err != nil {
					t.Fatal(err)
				}
				if reflect.DeepEqual(want, last) {
					continue
				}
				last = want.DeepCopyObject()
				requireProtobuf(t, want)
				for _, meta := range []*metav1.TypeMeta{{}, {APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}} {
					setTypeMeta(want, meta.APIVersion, meta.Kind)
					testTypedRoundTrip(t, want)
				}
				seen[gvk.String()] = true
			}
		})
	}
	if len(seen) < fewestFixtures {
		t.Errorf("only %d kinds", len(seen))
	}
}

func requireProtobuf(t testing.TB, obj runtime.Object) {
	t.Helper()
	if c, err := For(obj); err != nil || c.Name() != "protobuf" {
		t.Fatalf("For(%T): %v, %v", obj, c, err)
	}
}

// testTypedRoundTrip checks a type's protobuf and msgpack codecs. Each codec must decode the other codec's payloads.
func testTypedRoundTrip(t testing.TB, want runtime.Object) {
	t.Helper()
	p, err := For(want)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ForMsgpack(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Codec{p, m} {
		if got := roundTrip(t, c, want); !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s: got %#v\nwant %#v", c.Name(), got, want)
		}
	}
	for _, pair := range [][2]Codec{{p, m}, {m, p}} {
		data, err := pair[0].Append(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(pair[1], pair[0].Name(), data)
		if err != nil || !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s read by %s: %v", pair[0].Name(), pair[1].Name(), err)
		}
	}
}

func TestFixturesView(t *testing.T) {
	t.Parallel()
	scheme := allKinds(t)
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	for _, path := range fixtures(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := compactJSON(t, readFixture(t, path+".json"))
			obj, gvk, err := decoder.Decode(text, kindOf(path), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := parseUnstructured(t, text)
			if want.GetKind() != "" { // A watch event has no kind.
				setTypeMeta(obj, gvk.GroupVersion().String(), gvk.Kind)
			}
			testView(t, obj, want)
		})
	}
}

func testView(t *testing.T, obj runtime.Object, want *unstructured.Unstructured) {
	for _, choose := range []func(runtime.Object) (Codec, error){For, ForMsgpack} {
		c, err := choose(obj)
		if err != nil {
			t.Fatal(err)
		}
		view, err := View(entry.Typed, c)
		if err != nil {
			t.Fatal(err)
		}
		data, err := c.Append(nil, obj)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(view, c.Name(), data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %#v\nwant %#v", c.Name(), err, got, want)
		}
	}
}
