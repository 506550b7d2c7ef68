package reflector

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/larder-dev/larder/entry"
)

// testIsOtherShard checks that a list of other shards' objects is recognized by the number of its objects and the size
// of the shard, and never for a selector by namespace, whose hashes are not spread evenly.
func TestIsOtherShard(t *testing.T) {
	of := func(key, start, end string) sharding.Selector {
		return sharding.NewSelector(sharding.ShardRangeRequirement{Key: key, Start: start, End: end})
	}
	half := of("object.metadata.uid", "0x0000000000000000", "0x8000000000000000")
	const uid, first, last = "object.metadata.uid", "0x0000000000000000", "0x10000000000000000"
	for _, tt := range []struct {
		shard    sharding.Selector
		distinct int
		want     bool
	}{
		{half, 40, false},
		{half, 50, true},
		{half, 0, false},
		{of(uid, "0x4000000000000000", last), 10, false},
		{of(uid, "0x4000000000000000", last), 30, true},
		{of(uid, first, "0x0100000000000000"), 5000, false},
		{of(uid, first, "0x0100000000000000"), 10_000, true},
		{of("object.metadata.namespace", first, "0x8000000000000000"), 10_000, false},
		{sharding.NewSelector(append(half.Requirements(), of(uid, "0x8000000000000000", last).Requirements()...)...), 0,
			false},
	} {
		s := newGate(gateOptions{Shard: tt.shard})
		if got := s.isOtherShard(foreigners{sent: 10_000, distinct: tt.distinct}); got != tt.want {
			t.Errorf("%d objects, none of %s: %v", tt.distinct, tt.shard, got)
		}
	}
}

func TestCheckType(t *testing.T) {
	widget := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x/" + version, "kind": "Widget"}}
	}
	table := &metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}}
	undecoded := func(kind string) runtime.Object {
		of := &entry.UndecodedKind{Type: reflect.TypeFor[*corev1.Pod](), Kind: "Pod"}
		return entry.NewUndecoded(of, metav1.TypeMeta{APIVersion: "v1", Kind: kind}, metav1.ObjectMeta{}, "", nil)
	}
	tests := []struct {
		name      string
		want, got runtime.Object
		ok        bool
	}{
		{"nothing expected", nil, &corev1.Pod{}, true},
		{"a table", nil, table, false},
		{"the type", &corev1.Pod{}, &corev1.Pod{}, true},
		{"another type", &corev1.Pod{}, &corev1.ConfigMap{}, false},
		{"the kind, undecoded", &corev1.Pod{}, undecoded("Pod"), true},
		{"no kind, undecoded", &corev1.Pod{}, undecoded(""), true},
		{"another kind, undecoded", &corev1.Pod{}, undecoded("Node"), false},
		{"the kind", widget("v1"), widget("v1"), true},
		{"another version", widget("v1"), widget("v2"), false},
		{"any kind", &unstructured.Unstructured{}, widget("v2"), true},
		{"metadata only", &metav1.PartialObjectMetadata{},
			&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Pod"}}, true},
	}
	for _, tt := range tests {
		if err := checkType(tt.want, tt.got); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
