package fifo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/cache"
)

func delta(t cache.DeltaType, rv int) Delta {
	return Delta{Delta: cache.Delta{Type: t, Object: rv}, ResourceVersion: fmt.Sprint(rv)}
}

func push(t *testing.T, q *Queue, ds ...Delta) {
	t.Helper()
	for _, d := range ds {
		if err := q.Push(t.Context(), d); err != nil {
			t.Fatalf("Push(%s %s): %v", d.Type, d.ResourceVersion, err)
		}
	}
}

func pop(t *testing.T, q *Queue, l Limits) []string {
	t.Helper()
	b, err := q.Pop(t.Context(), l)
	if err != nil {
		t.Fatalf("Pop: %v", err)
	}
	defer b.Ack()
	return names(b)
}

func names(b *Batch) (out []string) {
	for _, d := range b.Deltas {
		out = append(out, string(d.Type)+" "+d.ResourceVersion)
	}
	return out
}

func TestBatchesArePrefixes(t *testing.T) {
	q := New(Options{})
	push(t, q, delta(cache.Added, 1), delta(cache.Updated, 1), delta(cache.Updated, 2), delta(cache.Bookmark, 3),
		delta(cache.Deleted, 4), delta(ReplaceStarted, 5), delta(cache.Replaced, 6), delta(cache.Added, 7),
		delta(cache.Added, 7), delta(cache.Added, 8),
		delta(ReplaceFinished, 9), delta(Drained, 9), delta(cache.SyncAll, 9), delta(cache.Updated, 10))
	want := [][]string{
		{"Added 1", "Updated 1", "Updated 2"}, {"Bookmark 3", "Deleted 4"},
		{"ReplaceStarted 5"}, {"Replaced 6"}, {"Added 7", "Added 7", "Added 8"},
		{"ReplaceFinished 9"}, {"Drained 9"}, {"SyncAll 9"}, {"Updated 10"},
	}
	for _, w := range want {
		if got := pop(t, q, Limits{Count: 3}); !reflect.DeepEqual(got, w) {
			t.Fatalf("batch = %v, want %v", got, w)
		}
	}
	if q.Len() != 0 {
		t.Errorf("Len = %d after all was acknowledged", q.Len())
	}
}

func TestBatchBytes(t *testing.T) {
	q := New(Options{})
	for i, size := range []int64{40, 60, 1, 500, 1} {
		d := delta(cache.Added, i)
		d.Bytes = size
		push(t, q, d)
	}
	for _, w := range [][]string{{"Added 0", "Added 1"}, {"Added 2"}, {"Added 3"}, {"Added 4"}} {
		if got := pop(t, q, Limits{Bytes: 100}); !reflect.DeepEqual(got, w) {
			t.Fatalf("batch = %v, want %v", got, w)
		}
	}
}

func TestOneBatchAtATime(t *testing.T) {
	q := New(Options{})
	push(t, q, delta(cache.Added, 1), delta(Drained, 1))
	b, err := q.Pop(t.Context(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Pop(t.Context(), Limits{}); !errors.Is(err, ErrNotAcked) {
		t.Fatalf("second Pop: %v, want ErrNotAcked", err)
	}
	b.Ack()
	b.Ack()
	if q.Len() != 1 {
		t.Errorf("Len = %d after one of two was acknowledged twice", q.Len())
	}
	if got := pop(t, q, Limits{}); !reflect.DeepEqual(got, []string{"Drained 1"}) {
		t.Errorf("got %v", got)
	}
}

// blocked starts a Push and reports whether it waits once all goroutines are blocked.
func blocked(t *testing.T, ctx context.Context, q *Queue, d Delta) (result chan error, waits bool) {
	t.Helper()
	result = make(chan error, 1)
	go func() { result <- q.Push(ctx, d) }()
	synctest.Wait()
	return result, len(result) == 0
}

func TestProducerBlocksOnCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{MaxCount: 3})
		page := delta(cache.Replaced, 1)
		page.Count = 2
		push(t, q, page, delta(cache.Added, 2))
		result, waits := blocked(t, t.Context(), q, delta(cache.Added, 3))
		if !waits {
			t.Fatal("Push into a full queue did not block")
		}
		b, err := q.Pop(t.Context(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(result) != 0 {
			t.Fatal("a popped delta made room before it was acknowledged")
		}
		b.Ack()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	})
}

func TestProducerBlocksOnBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{MaxBytes: 100})
		large, small := delta(cache.Added, 1), delta(cache.Added, 2)
		large.Bytes, small.Bytes = 1000, 1
		push(t, q, large) // An empty queue accepts a delta that is larger than the bound.
		result, waits := blocked(t, t.Context(), q, small)
		if !waits {
			t.Fatal("Push beyond MaxBytes did not block")
		}
		pop(t, q, Limits{})
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		result, waits = blocked(t, t.Context(), q, large)
		if !waits {
			t.Fatal("a delta larger than the bound passed while the queue was not empty")
		}
		pop(t, q, Limits{})
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	})
}

func TestProducerIsCancellable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{MaxCount: 1})
		push(t, q, delta(cache.Added, 1))
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		result, waits := blocked(t, ctx, q, delta(cache.Added, 2))
		if !waits {
			t.Fatal("did not block")
		}
		cancel(why)
		if err := <-result; !errors.Is(err, why) {
			t.Fatalf("Push: %v, want the context's cause", err)
		}
		if got := pop(t, q, Limits{}); !reflect.DeepEqual(got, []string{"Added 1"}) || q.Len() != 0 {
			t.Errorf("popped %v, %d left: the cancelled delta was taken", got, q.Len())
		}
		if err := q.Push(ctx, delta(cache.Added, 3)); !errors.Is(err, why) {
			t.Errorf("Push with an ended context: %v", err)
		}
	})
}

func TestConsumerIsCancellable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := q.Pop(ctx, Limits{})
			result <- err
		}()
		synctest.Wait()
		if len(result) != 0 {
			t.Fatal("Pop of an empty queue did not block")
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Fatalf("Pop: %v", err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{MaxCount: 1})
		push(t, q, delta(cache.Added, 1))
		result, waits := blocked(t, t.Context(), q, delta(cache.Added, 2))
		if !waits {
			t.Fatal("did not block")
		}
		q.Close()
		q.Close()
		if err := <-result; !errors.Is(err, cache.ErrFIFOClosed) {
			t.Fatalf("blocked Push: %v", err)
		}
		if err := q.WaitIdle(t.Context()); !errors.Is(err, cache.ErrFIFOClosed) {
			t.Errorf("WaitIdle of a closed queue that is not empty: %v", err)
		}
		if got := pop(t, q, Limits{}); !reflect.DeepEqual(got, []string{"Added 1"}) {
			t.Errorf("a closed queue lost what it had accepted: %v", got)
		}
		if _, err := q.Pop(t.Context(), Limits{}); !errors.Is(err, cache.ErrFIFOClosed) {
			t.Errorf("Pop of a closed, empty queue: %v", err)
		}
	})
}

func TestWaitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options{})
		push(t, q, delta(cache.Added, 1))
		result := make(chan error, 1)
		go func() { result <- q.WaitIdle(t.Context()) }()
		b, err := q.Pop(t.Context(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(result) != 0 {
			t.Fatal("idle while a batch is being processed")
		}
		b.Ack()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	})
}
