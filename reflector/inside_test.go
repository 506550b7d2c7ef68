package reflector

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/larder-dev/larder/entry"
)

// Tests of single parts that cannot be seen from outside.

func TestExamine(t *testing.T) {
	held := entry.ObjectRef{Key: "a/x", UID: "u1", ResourceVersion: "90"}
	tests := []struct {
		name  string
		got   entry.ObjectRef
		found bool
		want  finding
	}{
		{"the same", held, true, agrees},
		{"not found", entry.ObjectRef{}, false, changed},
		{"updated since", entry.ObjectRef{UID: "u1", ResourceVersion: "101"}, true, changed},
		{"replaced since", entry.ObjectRef{UID: "u2", ResourceVersion: "101"}, true, changed},
		{"an older state", entry.ObjectRef{UID: "u1", ResourceVersion: "80"}, true, contradicts},
		{"a state between ours and where the stream stands", entry.ObjectRef{UID: "u1", ResourceVersion: "95"}, true,
			contradicts},
		{"at where the stream stands", entry.ObjectRef{UID: "u1", ResourceVersion: "100"}, true, contradicts},
		{"another object, old", entry.ObjectRef{UID: "u2", ResourceVersion: "90"}, true, contradicts},
		{"not comparable", entry.ObjectRef{UID: "u2", ResourceVersion: "x"}, true, agrees},
	}
	for _, tt := range tests {
		if got := examine(held, "100", tt.got, tt.found); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestPageOfOne: the least limit is not more than what is asked for.
func TestPageOfOne(t *testing.T) {
	l := newLimit(1)
	if l.cut(l.next, time.Minute); l.next != 1 {
		t.Errorf("%d after a page of one was cut", l.next)
	}
}

// TestMeanSize: of the kinds of objects that there are, and without looking at all of them.
func TestMeanSize(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"a": "b"}},
		Data: map[string]string{"k": strings.Repeat("y", 1000)}}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x",
			"managedFields": []any{map[string]any{"f:spec": map[string]any{"f:a": map[string]any{}}}}},
		"spec": map[string]any{"a": "b", "n": int64(12), "yes": true, "list": []any{"1", "2", map[string]any{"z": nil}}},
	}}
	for _, obj := range []runtime.Object{u, struct{ runtime.Object }{cm}, struct{ runtime.Object }{u}} {
		raw, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := meanSize([]runtime.Object{obj, obj}), int64(len(raw)); got < want*9/10 || got > want*11/10 {
			t.Errorf("%T has %d bytes of JSON, and %d were estimated", obj, want, got)
		}
	}
	if got, want := meanSize([]runtime.Object{cm}), int64(cm.Size()); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if got := meanSize(nil); got != 0 {
		t.Errorf("%d bytes of nothing", got)
	}
	n := 0
	many := slices.Repeat([]runtime.Object{&counted{n: &n}}, 2000)
	if got := meanSize(many); got != 100 || n > 100 {
		t.Errorf("%d bytes, after %d calls of Size", got, n)
	}
}

// TestPutOffIsNoPatience: what a server puts off is not given more time, which is for what is long to come.
func TestPutOffIsNoPatience(t *testing.T) {
	var p patience
	for range 3 {
		if p.learn(requestTimeout, ErrPutOff) || p.time() != requestTimeout {
			t.Errorf("%v", p.time())
		}
	}
}

// TestAsksForAnother: where the hashes are not spread, nothing can be told.
func TestAsksForAnother(t *testing.T) {
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
		s := &session{o: Options{Shard: tt.shard}}
		if got := s.asksForAnother(foreigners{sent: 10_000, distinct: tt.distinct}); got != tt.want {
			t.Errorf("%d objects, none of %s: %v", tt.distinct, tt.shard, got)
		}
	}
}

// TestPatience: it grows where it was what ended a request, and has an end.
func TestPatience(t *testing.T) {
	var p patience
	late := context.DeadlineExceeded
	for _, tt := range []struct {
		took     time.Duration
		err      error
		want     time.Duration
		hopeless bool
	}{
		{10 * time.Second, late, requestTimeout, false}, {60 * time.Second, late, requestTimeout, true}, {60 * time.Second,
			errors.New("refused"), requestTimeout, false},
		{90 * time.Second, late, 3 * time.Minute, false}, {150 * time.Second, late, 3 * time.Minute, true},
		{3 * time.Minute, late, 6 * time.Minute, false}, {time.Second, nil, 6 * time.Minute, false},
		{6 * time.Minute, late, maxPatience, false}, {maxPatience, late, maxPatience, true}, {maxPatience, late, maxPatience,
			true},
	} {
		if hopeless := p.learn(tt.took, tt.err); p.time() != tt.want || hopeless != tt.hopeless {
			t.Errorf("after %v, %v: %v, hopeless %t; want %v, %t", tt.took, tt.err, p.time(), hopeless, tt.want, tt.hopeless)
		}
	}
}

// TestSilenceLimit: it doubles where watches are closed for it, and has an end; elsewhere it is as ever.
func TestSilenceLimit(t *testing.T) {
	var q silence
	live, drain := &stream{timeout: watchTimeout()}, &stream{timeout: drainTimeout}
	want := func(rv string, forLive, forDrain time.Duration) {
		t.Helper()
		if a, b := q.limit(live, rv), q.limit(drain, rv); a != forLive || b != forDrain {
			t.Errorf("at %s: %v and %v, want %v and %v", rv, a, b, forLive, forDrain)
		}
	}
	const drains = drainTimeout + drainGrace
	want("", silenceLimit, drains)
	q.closed("5")
	want("5", 2*silenceLimit, 2*silenceLimit)
	want("6", silenceLimit, drains)
	q.closed("5")
	q.closed("5")
	want("5", maxSilence, maxSilence)
	q.closed("6")
	want("6", 2*silenceLimit, 2*silenceLimit)
	want("5", silenceLimit, drains)
}

func TestCheckType(t *testing.T) {
	widget := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x/" + version, "kind": "Widget"}}
	}
	table := &metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}}
	tests := []struct {
		name      string
		want, got runtime.Object
		ok        bool
	}{
		{"nothing expected", nil, &corev1.Pod{}, true},
		{"a table", nil, table, false},
		{"the type", &corev1.Pod{}, &corev1.Pod{}, true},
		{"another type", &corev1.Pod{}, &corev1.ConfigMap{}, false},
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

// counted counts the calls of Size.
type counted struct {
	corev1.ConfigMap
	n *int
}

func (c counted) Size() int { *c.n++; return 100 }
