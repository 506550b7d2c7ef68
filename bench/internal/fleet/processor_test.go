package fleet

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestProcessor checks that simulated jobs share the server's cores, that no job gets more than one core, and that a
// cancelled job frees its share.
func TestProcessor(t *testing.T) {
	for _, tc := range []struct {
		name string
		cpu  []time.Duration
		want []time.Duration
	}{
		{"one", []time.Duration{time.Second}, []time.Duration{time.Second}},
		{"as many as cores", []time.Duration{time.Second, 3 * time.Second}, []time.Duration{time.Second, 3 * time.Second}},
		{
			"twice as many",
			[]time.Duration{time.Second, time.Second, time.Second, time.Second},
			[]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second},
		},
		// Three jobs share two cores until the short job has received a second, after 1.5 s.
		{
			"a short one",
			[]time.Duration{time.Second, 2 * time.Second, 2 * time.Second},
			[]time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond, 2500 * time.Millisecond},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, begun := newProcessor(2), time.Now()
				var wg sync.WaitGroup
				for i, cpu := range tc.cpu {
					wg.Go(func() {
						if err := p.work(t.Context(), cpu); err != nil {
							t.Error(err)
						}
						if took := time.Since(begun); took < tc.want[i] || took > tc.want[i]+time.Millisecond {
							t.Errorf("job %d took %v, want %v", i, took, tc.want[i])
						}
					})
				}
				wg.Wait()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p, begun := newProcessor(1), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.work(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		if err := p.work(t.Context(), 2*time.Second); err != nil {
			t.Error(err)
		}
		// The job has half of the processor for the first second, and all of it for the next one and a half seconds.
		if took := time.Since(begun).Round(time.Millisecond); took != 2500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if used := p.usage(); used < 2.499 || used > 2.501 {
			t.Errorf("used %v s", used)
		}
		wg.Wait()
	})
}

func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFairness()
		if err := f.take(t.Context(), allSeats-5); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i, seats := range []int64{10, 1} {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				if err := f.take(t.Context(), seats); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		if len(order) > 0 {
			t.Errorf("%v overtook the queue", order)
		}
		mu.Unlock()
		f.seats.Release(allSeats - 5)
		wg.Wait()
		f.seats.Release(11)

		if err := f.take(t.Context(), allSeats); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := f.take(t.Context(), 1); err == nil || time.Since(begun) != queueWait {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		for range queueLength {
			wg.Go(func() { _ = f.take(t.Context(), 1) })
		}
		synctest.Wait()
		begun = time.Now()
		if err := f.take(t.Context(), 1); err == nil || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		wg.Wait()
	})
}

func TestRetryAfter(t *testing.T) {
	d := dropped{retryAfter: 1}
	got := 0
	second := int64(1_000_000)
	for range 100 {
		second++
		for range 10 {
			got = d.note(second)
		}
	}
	if got != maxRetryAfter {
		t.Errorf("%d after 100 s of 10 a second", got)
	}
	if got = d.note(second + 200); got != 1 {
		t.Errorf("%d after 200 s of none", got)
	}
}
