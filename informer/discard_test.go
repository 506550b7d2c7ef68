package informer

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestDiscard: an informer that was never run gives its collection to the next one, once and for good; one that
// runs does not let itself be discarded.
func TestDiscard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		first := r.open()
		first.Discard()
		first.Discard()
		if !first.IsStopped() {
			t.Error("a discarded informer counts as one that can be run")
		}
		next, err := New(r.srv, &corev1.Pod{}, first.o)
		if err != nil {
			t.Fatalf("the collection was not given back: %v", err)
		}
		first.RunWithContext(context.Background()) // must not start
		r.i = next
		r.run()
		next.Discard()
		if next.IsStopped() || !next.HasSynced() {
			t.Error("an informer that runs was discarded")
		}
		equal(t, "stored", r.stored(), r.srv.state())
		r.close()

		memory, err := New(r.srv, &corev1.Pod{}, Options{InMemory: true, Identity: podsIdentity})
		if err != nil {
			t.Fatal(err)
		}
		memory.Discard()
	})
}
