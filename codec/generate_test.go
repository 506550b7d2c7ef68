package codec

import (
	"flag"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
)

// Flags of TestGeneratedObjects. The test prints its seed; the flag -larder.seed repeats a failure.
var (
	generateSeed   = flag.Int64("larder.seed", 0, "seed of the generated objects; 0 draws one")
	generateRounds = flag.Int("larder.rounds", 1, "generated objects per kind; make soak has more")
)

// TestGeneratedObjects encodes and decodes random objects of every kind of k8s.io/api with every codec.
func TestGeneratedObjects(t *testing.T) {
	t.Parallel()
	seed := *generateSeed
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	t.Logf("-larder.seed=%d", seed)
	scheme := allKinds(t)
	f := newFiller(scheme, seed)
	kinds := 0
	for gvk := range scheme.AllKnownTypes() {
		example, err := scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if gvk.Version == runtime.APIVersionInternal || !isStored(example) {
			continue
		}
		kinds++
		t.Run(gvk.GroupVersion().String()+"."+gvk.Kind, func(t *testing.T) {
			for range *generateRounds {
				testGenerated(t, f, scheme, gvk)
			}
		})
	}
	if kinds < 150 {
		t.Errorf("only %d kinds", kinds)
	}
}

// newFiller returns apimachinery's filler of random objects, extended to fill managedFields.
func newFiller(scheme *runtime.Scheme, seed int64) *randfill.Filler {
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, func(serializer.CodecFactory) []any {
		return []any{
			func(f *metav1.FieldsV1, c randfill.Continue) {
				f.SetRawString([]string{
					`{}`, `{"f:metadata":{"f:labels":{".":{},"f:b":{},"f:a":{}}}}`,
					`{"f:ports":{"k:{\"port\":80}":{".":{}},"k:{\"port\":443}":{}},"v:\"<&>\"":{},"i:2":{},"i:10":{}}`,
				}[c.Intn(3)])
			},
			func(e *metav1.ManagedFieldsEntry, c randfill.Continue) { c.FillNoCustom(e) },
		}
	})
	return fuzzer.FuzzerFor(funcs, rand.NewSource(seed), serializer.NewCodecFactory(scheme))
}

func isStored(example runtime.Object) bool {
	_, ok := example.(metav1.Object)
	return ok
}

func testGenerated(t *testing.T, f *randfill.Filler, scheme *runtime.Scheme, gvk schema.GroupVersionKind) {
	t.Helper()
	obj, err := scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	f.Fill(obj)
	testTypedRoundTrip(t, obj)

	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		if strings.Contains(err.Error(), "overflow") {
			return // Unstructured objects cannot hold integers above math.MaxInt64.
		}
		t.Fatal(err)
	}
	want := &unstructured.Unstructured{Object: m}
	if got := roundTrip(t, Unstructured(), want); !reflect.DeepEqual(got, want) {
		t.Errorf("unstructured: got %#v\nwant %#v", got, want)
	}
}
