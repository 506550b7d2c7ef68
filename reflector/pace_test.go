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

	"github.com/larder-dev/larder/internal/limiter"
)

func TestBackoffCeilings(t *testing.T) {
	want := []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond,
		6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * time.Second, 30 * time.Second}
	var b backoff
	for round := range 2 {
		for i, w := range want {
			if got := limiter.Ceiling(b.failures); got != w {
				t.Errorf("round %d: ceiling %d is %s, want %s", round, i, got, w)
			}
			b.Next(0)
		}
		b.Reset()
	}
}

func TestBackoffJitter(t *testing.T) {
	lowest, highest := time.Hour, time.Duration(0)
	for range 2000 {
		b := backoff{failures: 3}
		d := b.Next(time.Second)
		lowest, highest = min(lowest, d), max(highest, d)
	}
	// The random part of the wait is between zero and the ceiling (full jitter). Retry-After is added to that part.
	if lowest < time.Second || lowest > 2*time.Second || highest > 7400*time.Millisecond || highest < 6*time.Second {
		t.Errorf("waits from %s to %s", lowest, highest)
	}
}

func TestPageOfOne(t *testing.T) {
	l := newPageLimit(1)
	if l.Cut(l.Next, time.Minute); l.Next != 1 {
		t.Errorf("%d after a page of one was cut", l.Next)
	}
}

// testMeanSize checks the estimate for protobuf, JSON and unstructured objects, and that only a sample is measured.
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

// testPutOffIsNoPatience checks that ErrPutOff (the server asked to retry later) does not lengthen the time-out.
func TestPutOffIsNoPatience(t *testing.T) {
	var p patience
	for range 3 {
		if p.Learn(requestTimeout, ErrPutOff) || p.Time() != requestTimeout {
			t.Errorf("%v", p.Time())
		}
	}
}

// testPatience checks that the time-out doubles after a request for a single object has timed out, up to a maximum.
func TestPatience(t *testing.T) {
	var p patience
	late := context.DeadlineExceeded
	for _, tt := range []struct {
		took      time.Duration
		err       error
		want      time.Duration
		exhausted bool
	}{
		{10 * time.Second, late, requestTimeout, false}, {60 * time.Second, late, requestTimeout, true}, {60 * time.Second,
			errors.New("refused"), requestTimeout, false},
		{90 * time.Second, late, 3 * time.Minute, false}, {150 * time.Second, late, 3 * time.Minute, true},
		{3 * time.Minute, late, 6 * time.Minute, false}, {time.Second, nil, 6 * time.Minute, false},
		{6 * time.Minute, late, maxPatience, false}, {maxPatience, late, maxPatience, true}, {maxPatience, late, maxPatience,
			true},
	} {
		if exhausted := p.Learn(tt.took, tt.err); p.Time() != tt.want || exhausted != tt.exhausted {
			t.Errorf("after %v, %v: %v, exhausted %t; want %v, %t", tt.took, tt.err, p.Time(), exhausted, tt.want, tt.exhausted)
		}
	}
}

// testSilenceLimit checks that the limit doubles only at the resourceVersion where watches are closed for silence.
func TestSilenceLimit(t *testing.T) {
	var q silence
	want := func(rv string, forLive, forDrain time.Duration) {
		t.Helper()
		if a, b := q.Limit(false, rv), q.Limit(true, rv); a != forLive || b != forDrain {
			t.Errorf("at %s: %v and %v, want %v and %v", rv, a, b, forLive, forDrain)
		}
	}
	const drains = drainTimeout + drainGrace
	want("", silenceLimit, drains)
	q.Closed("5")
	want("5", 2*silenceLimit, 2*silenceLimit)
	want("6", silenceLimit, drains)
	q.Closed("5")
	q.Closed("5")
	want("5", maxSilence, maxSilence)
	q.Closed("6")
	want("6", 2*silenceLimit, 2*silenceLimit)
	want("5", silenceLimit, drains)
}

type counted struct {
	corev1.ConfigMap
	n *int
}

func (c counted) Size() int { *c.n++; return 100 }
