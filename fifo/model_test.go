package fifo

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// step is one call of a reflector. A step of the type Replaced is a whole list.
type step struct {
	typ  cache.DeltaType
	objs []*metav1.ObjectMeta
	rv   string
}

// TestModelRealFIFO pushes one random stream into Queue and into client-go's RealFIFO. It checks that both return the
// same deltas in the same order, in any division into batches. The first Drained must be where RealFIFO has synced.
func TestModelRealFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := genSteps().Draw(t, "steps")
		if got, want := throughQueue(t, steps), throughRealFIFO(t, steps); !reflect.DeepEqual(got, want) {
			t.Fatalf("fifo:     %v\nRealFIFO: %v", got, want)
		}
	})
}

func genSteps() *rapid.Generator[[]step] {
	return rapid.Custom(func(t *rapid.T) []step {
		rv := 100
		object := func() *metav1.ObjectMeta {
			rv++
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")
			return &metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: fmt.Sprint(rv)}
		}
		list := func() step {
			s := step{typ: cache.Replaced}
			for range rapid.IntRange(0, 7).Draw(t, "items") {
				s.objs = append(s.objs, object())
			}
			s.rv = fmt.Sprint(rv)
			return s
		}
		steps := []step{list()}
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			typ := rapid.SampledFrom([]cache.DeltaType{cache.Added, cache.Updated, cache.Deleted,
				cache.Added, cache.Updated, cache.Deleted, cache.Bookmark, cache.SyncAll, cache.Replaced}).Draw(t, "type")
			switch typ {
			case cache.Replaced:
				steps = append(steps, list())
			case cache.Bookmark, cache.SyncAll:
				rv++
				steps = append(steps, step{typ: typ, rv: fmt.Sprint(rv)})
			default:
				o := object()
				steps = append(steps, step{typ: typ, objs: []*metav1.ObjectMeta{o}, rv: o.ResourceVersion})
			}
		}
		return steps
	})
}

func line(t cache.DeltaType, o *metav1.ObjectMeta) string {
	return fmt.Sprintf("%s %s@%s", t, o.Name, o.ResourceVersion)
}

// throughQueue uses a queue with tight bounds, so that a concurrent Push often blocks.
func throughQueue(t *rapid.T, steps []step) (trace []string) {
	q := New(Options{
		MaxCount: rapid.IntRange(1, 6).Draw(t, "maxCount"),
		MaxBytes: int64(rapid.IntRange(1, 300).Draw(t, "maxBytes")),
	})
	limits := Limits{Count: rapid.IntRange(1, 5).Draw(t, "batch"),
		Bytes: int64(rapid.IntRange(1, 300).Draw(t, "batchBytes"))}
	pageSize := rapid.IntRange(1, 3).Draw(t, "page")
	result := make(chan error, 1)
	go func() {
		defer q.Close()
		for i, s := range steps {
			for _, d := range deltasOf(s, pageSize, i == 0) {
				if err := q.Push(context.Background(), d); err != nil {
					result <- err
					return
				}
			}
		}
		result <- nil
	}()
	for synced := false; ; {
		b, err := q.Pop(context.Background(), limits)
		if err != nil {
			break
		}
		for _, d := range b.Deltas {
			trace = append(trace, linesOf(d)...)
		}
		b.Ack()
		if !synced && b.Deltas[0].Type == Drained {
			trace, synced = append(trace, "synced"), true
		}
	}
	if err := <-result; err != nil {
		t.Fatalf("Push: %v", err)
	}
	return trace
}

func deltasOf(s step, pageSize int, first bool) (out []Delta) {
	if s.typ != cache.Replaced {
		d := Delta{Delta: cache.Delta{Type: s.typ}, ResourceVersion: s.rv, Bytes: 50}
		if len(s.objs) == 1 {
			d.Object = s.objs[0]
		}
		return []Delta{d}
	}
	out = append(out, Delta{Delta: cache.Delta{Type: ReplaceStarted}})
	for rest := s.objs; len(rest) > 0; {
		page := rest[:min(pageSize, len(rest))]
		rest = rest[len(page):]
		out = append(out, Delta{Delta: cache.Delta{Type: cache.Replaced, Object: page}, Count: len(page),
			Bytes: int64(50 * len(page))})
	}
	out = append(out, Delta{Delta: cache.Delta{Type: ReplaceFinished}, ResourceVersion: s.rv})
	if first {
		out = append(out, Delta{Delta: cache.Delta{Type: Drained}, ResourceVersion: s.rv})
	}
	return out
}

func linesOf(d Delta) (out []string) {
	switch d.Type {
	case cache.Replaced:
		for _, o := range d.Object.([]*metav1.ObjectMeta) {
			out = append(out, line(cache.Replaced, o))
		}
	case ReplaceFinished:
		out = append(out, "ReplacedAll "+d.ResourceVersion)
	case cache.Bookmark:
		out = append(out, "Bookmark "+d.ResourceVersion)
	case cache.SyncAll:
		out = append(out, "SyncAll")
	case cache.Added, cache.Updated, cache.Deleted:
		out = append(out, line(d.Type, d.Object.(*metav1.ObjectMeta)))
	}
	return out
}

func throughRealFIFO(t *rapid.T, steps []step) (trace []string) {
	f := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
		AtomicEvents: true, UnlockWhileProcessing: true, EmitDeltaTypeBookmark: true,
	})
	batched := rapid.Bool().Draw(t, "batched")
	queued := 0
	one := func(obj any, _ bool) error {
		for _, d := range obj.(cache.Deltas) {
			trace = append(trace, realLines(d)...)
			queued--
		}
		return nil
	}
	pop := func() {
		synced := f.HasSynced()
		var err error
		if batched {
			err = f.PopBatch(func(ds []cache.Delta, initial bool) error { return one(cache.Deltas(ds), initial) }, one)
		} else {
			_, err = f.Pop(one)
		}
		if err != nil {
			t.Fatalf("RealFIFO: %v", err)
		}
		if !synced && f.HasSynced() {
			trace = append(trace, "synced")
		}
	}
	for _, s := range steps {
		if err := feed(f, s); err != nil {
			t.Fatalf("RealFIFO: %v", err)
		}
		for queued++; queued > 0 && rapid.Bool().Draw(t, "pop"); {
			pop()
		}
	}
	for queued > 0 {
		pop()
	}
	return trace
}

func feed(f *cache.RealFIFO, s step) error {
	switch s.typ {
	case cache.Replaced:
		items := []any{}
		for _, o := range s.objs {
			items = append(items, o)
		}
		return f.Replace(items, s.rv)
	case cache.Bookmark:
		return f.Bookmark(s.rv)
	case cache.SyncAll:
		return f.Resync()
	case cache.Added:
		return f.Add(s.objs[0])
	case cache.Updated:
		return f.Update(s.objs[0])
	}
	return f.Delete(s.objs[0])
}

func realLines(d cache.Delta) (out []string) {
	switch info := d.Object.(type) {
	case cache.ReplacedAllInfo:
		for _, o := range info.Objects {
			out = append(out, line(cache.Replaced, o.(*metav1.ObjectMeta)))
		}
		return append(out, "ReplacedAll "+info.ResourceVersion)
	case cache.BookmarkInfo:
		return []string{"Bookmark " + info.ResourceVersion}
	case cache.SyncAllInfo:
		return []string{"SyncAll"}
	}
	return []string{line(d.Type, d.Object.(*metav1.ObjectMeta))}
}
