package codec

import (
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type shapeA struct {
	Name string             `json:"name"`
	Time metav1.Time        `json:"time" protobuf:"bytes,2,opt,name=time"`
	Q    *resource.Quantity `json:"q"`
	Self []shapeA           `json:"self"`
	Map  map[string]*shapeA `json:"map"`
	priv int
}

// shapeB is shapeA with its fields in another order and another private field.
type shapeB struct {
	other string
	Map   map[string]*shapeB `json:"map"`
	Self  []shapeB           `json:"self"`
	Q     *resource.Quantity `json:"q"`
	Time  metav1.Time        `json:"time" protobuf:"bytes,2,opt,name=time"`
	Name  string             `json:"name"`
}

func TestFingerprintIsTheSameInEveryBuild(t *testing.T) {
	_, _ = shapeA{}.priv, shapeB{}.other
	const golden = "97728d4e5abc77829410"
	for _, typ := range []reflect.Type{reflect.TypeFor[shapeA](), reflect.TypeFor[shapeB]()} {
		if got := typeFingerprint("test", 1, typ); got != golden {
			t.Errorf("%s: %s, want %s", typ, got, golden)
		}
	}
}

func TestFingerprintSeesChanges(t *testing.T) {
	seen := map[string]string{}
	add := func(what, fingerprint string) {
		if other, ok := seen[fingerprint]; ok {
			t.Errorf("%s and %s have the same fingerprint", what, other)
		}
		seen[fingerprint] = what
	}
	type base struct {
		A string `json:"a" protobuf:"bytes,1,opt,name=a"`
	}
	type outer struct{ B []map[string]*base }
	add("base", typeFingerprint("e", 1, reflect.TypeFor[base]()))
	add("version", typeFingerprint("e", 2, reflect.TypeFor[base]()))
	add("encoding", typeFingerprint("f", 1, reflect.TypeFor[base]()))
	add("nested", typeFingerprint("e", 1, reflect.TypeFor[outer]()))
	{
		type base struct {
			A string `json:"a" protobuf:"bytes,1,opt,name=a"`
			B string `json:"b"`
		}
		type outer struct{ B []map[string]*base }
		add("a field more", typeFingerprint("e", 1, reflect.TypeFor[base]()))
		add("a field more, nested", typeFingerprint("e", 1, reflect.TypeFor[outer]()))
	}
	{
		type base struct {
			A string `json:"b" protobuf:"bytes,1,opt,name=a"`
		}
		add("json tag", typeFingerprint("e", 1, reflect.TypeFor[base]()))
	}
	{
		type base struct {
			A string `json:"a" protobuf:"bytes,2,opt,name=a"`
		}
		add("protobuf tag", typeFingerprint("e", 1, reflect.TypeFor[base]()))
	}
	{
		type base struct {
			A *string `json:"a" protobuf:"bytes,1,opt,name=a"`
		}
		add("pointer", typeFingerprint("e", 1, reflect.TypeFor[base]()))
	}
	{
		type base struct {
			A metav1.Time `json:"a" protobuf:"bytes,1,opt,name=a"`
		}
		add("type with JSON methods", typeFingerprint("e", 1, reflect.TypeFor[base]()))
	}
	{
		type base struct {
			A metav1.MicroTime `json:"a" protobuf:"bytes,1,opt,name=a"`
		}
		add("another type with JSON methods", typeFingerprint("e", 1, reflect.TypeFor[base]()))
	}
}

func TestFingerprintsOfCodecs(t *testing.T) {
	pod, err := For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	asMsgpack, err := ForMsgpack(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range []Codec{pod, asMsgpack, mustCodec(t, &corev1.Node{}), mustCodec(t, &metav1.PartialObjectMetadata{}),
		Unstructured()} {
		if c.Fingerprint() == "" || seen[c.Fingerprint()] {
			t.Errorf("fingerprint %q is empty or there twice", c.Fingerprint())
		}
		seen[c.Fingerprint()] = true
	}
	if got := Unstructured().Fingerprint(); got != "unstructured-1" {
		t.Errorf("unstructured: %q; a change rewrites every collection", got)
	}
}

// TestFingerprintOfAnotherProcess checks that another process computes an equal fingerprint.
func TestFingerprintOfAnotherProcess(t *testing.T) {
	here := mustCodec(t, &corev1.Pod{}).Fingerprint()
	if os.Getenv("LARDER_TEST_PRINT_FINGERPRINT") != "" {
		t.Logf("fingerprint %s", here)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFingerprintOfAnotherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "LARDER_TEST_PRINT_FINGERPRINT=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "fingerprint "+here) {
		t.Errorf("%v: want %s in\n%s", err, here, out)
	}
}
