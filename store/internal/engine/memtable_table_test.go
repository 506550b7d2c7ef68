package engine_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/larder-dev/larder/store/internal/engine"
)

// TestWritesOfACommit checks that each delete is written by exactly one commit, even if the key is written while
// another commit runs, and that committed deletes of a key do not stay in memory.
func TestWritesOfACommit(t *testing.T) {
	table, order := engine.NewMemtable[int](), uint64(0)
	var last *byte // first byte of the payload of the last write
	put := func(dels ...bool) {
		for _, del := range dels {
			order++
			x := &engine.Write{Key: "k", RV: fmt.Sprint(order), Del: del, Order: order, Payload: make([]byte, 100)}
			last = &x.Payload[0]
			table.Put([]*engine.Write{x}, func(int, bool) int { return 0 }, func() {})
		}
	}
	writes := func(s *engine.MemtableSnapshot[int]) string {
		var b strings.Builder
		for _, x := range s.Writes(true) {
			fmt.Fprint(&b, map[bool]string{true: "-", false: "+"}[x.Del], x.RV, "<", x.Since, " ")
		}
		return strings.TrimSpace(b.String())
	}
	put(false, true, false, false)
	first := table.Snapshot()
	put(true, false) // A delete and a write follow while the first snapshot is being committed.
	if got, want := writes(first), "-2< +4<3"; got != want {
		t.Errorf("the first commit has %s, want %s", got, want)
	}
	table.Committed(first)
	second := table.Snapshot()
	put(false, true)
	if got, want := writes(second), "-5<3 +6<6"; got != want {
		t.Errorf("the second commit has %s, want %s", got, want)
	}
	table.Committed(second)
	size := table.Size()
	put(true)
	gone := weak.Make(last)
	for range 50 {
		put(false, true)
		s := table.Snapshot()
		put(false, true)
		if table.Committed(s); table.Size() > 3*size {
			t.Fatalf("%d bytes, after %d with the first delete", table.Size(), size)
		}
	}
	if runtime.GC(); gone.Value() != nil {
		t.Error("a delete that is committed is still in memory")
	}
	table.Committed(table.Snapshot())
	if table.Size() != 0 {
		t.Errorf("%d bytes are left", table.Size())
	}
}
