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

// TestStacks checks that the function lists of docs/architecture.md omit no function. It sends an event through an
// informer, restarts the informer, and notes the call stack at each call to disk, network or user code. From the first
// listed function on, each function of a stack must be in the list, in the order of the list.
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
		<-w.Handled
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
				continue // skips a closure of f that a later function called
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

// stacks has one call stack per name, outermost function first. Only the first call of a name counts.
type stacks struct {
	code *code

	mu   sync.Mutex
	seen map[string][]string // mu guards seen, which is nil before the first call of record
}

// record clears the stacks and makes note keep new stacks.
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

// givenToLarder are library functions that only call functions of the environment.
var givenToLarder = []string{"store.commitHook", "requests.ListWatch"}

// note notes the library functions on the current call stack under a name.
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
