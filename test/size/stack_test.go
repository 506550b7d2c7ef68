package main

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/test/size/world"
)

// TestStacks sends an event through an informer, and starts it again, and takes the call stack wherever Larder calls
// what this test has given it. From the first function that is in the list on, each function of a stack must be in the
// list, in the order of the list: no step between two listed ones can be left out there.
func TestStacks(t *testing.T) {
	root, walks := pageOf(t)
	c, err := readCode(root)
	if err != nil {
		t.Fatal(err)
	}
	s := &stacks{code: c}
	w, err := world.New(t.TempDir(), s.note)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = w.Run(t.Context(), func(ctx context.Context, st *store.Store) error {
		if err := st.Flush(ctx); err != nil {
			return err
		}
		s.record()
		if err := w.Change(ctx); err != nil {
			return err
		}
		<-w.Told
		for next := st.Committed(); s.take()[world.Commit] == nil; next = st.Committed() {
			<-next
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, s.take(), walks[0], world.Transform, world.Encode, world.Index, world.Handler)
	compare(t, s.take(), walks[1], world.Commit)
	s.record()
	if err := w.Run(t.Context(), func(context.Context, *store.Store) error { return nil }); err != nil {
		t.Fatal(err)
	}
	compare(t, s.take(), walks[2], world.Commit, world.Decode, world.Request, world.Watch, world.Handler)
}

func compare(t *testing.T, seen map[string][]string, w *Walk, names ...string) {
	t.Helper()
	for _, name := range names {
		stack := seen[name]
		at := slices.IndexFunc(stack, func(f string) bool { return slices.Contains(w.functions(), f) })
		if at < 0 {
			t.Errorf("%s: the stack at the %s has no function of the list: %q", w.Name, name, stack)
			continue
		}
		row := 0
		for i, f := range stack[at:] {
			if slices.Contains(stack[at:at+i], f) {
				continue // a function within it, which another one has called
			}
			n := slices.IndexFunc(w.Steps[row:], func(s Step) bool { return s.Function == f })
			if n < 0 {
				t.Errorf("%s: %s is passed before the %s, and is not in the list, or not after %s.\nThe stack: %s",
					w.Name, f, name, w.Steps[max(row-1, 0)].Function, strings.Join(stack[at:], " → "))
				break
			}
			row += n + 1
		}
	}
}

// stacks are the call stacks that were seen, by what was called, outermost function first; the first call counts.
type stacks struct {
	code *code

	mu   sync.Mutex
	seen map[string][]string // guarded by mu; nil while nothing is recorded
}

// record forgets what was seen, and begins anew.
func (s *stacks) record() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = map[string][]string{}
}

func (s *stacks) take() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seen)
}

// givenToLarder are functions that call what the world has given them.
var givenToLarder = []string{"store.commitHook", "requests.ListWatch"}

// note notes the functions of the library that have led to a call of what is named.
func (s *stacks) note(name string) {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var stack []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		file := strings.TrimPrefix(strings.TrimPrefix(f.File, modulePath+"/"), s.code.root+"/")
		if fn := s.code.at(file, f.Line); fn != "" && !slices.Contains(givenToLarder, fn) {
			stack = append(stack, fn)
		}
	}
	slices.Reverse(stack)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil && s.seen[name] == nil {
		s.seen[name] = slices.Compact(stack)
	}
}
