package informer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
)

// TestReadBeforeTheStart checks that one log line reports reads of an informer that was not started, if they happen
// more than ten seconds after New. Issue 37.
func TestReadBeforeTheStart(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			var lines []string
			logger := funcr.New(func(_, args string) {
				if strings.Contains(args, "not started") {
					lines = append(lines, args)
				}
			}, funcr.Options{})
			r.o.InMemory, r.o.Logger = inMemory, &logger
			r.srv.write("a/1", "x")
			r.start()
			time.Sleep(time.Minute)
			r.i.GetIndexer().List()
			r.close()
			want := 1
			if inMemory { // an informer in memory has no objects of an earlier run
				want = 0
			}
			i := r.open()
			i.GetIndexer().List()
			if len(lines) > 0 {
				t.Errorf("logged too early, or of a started informer: %q", lines)
			}
			time.Sleep(time.Minute)
			i.GetIndexer().ListKeys()
			i.GetIndexer().List()
			if len(lines) != want || want == 1 && !strings.Contains(lines[0], "Start it") {
				t.Errorf("%d lines, want %d: %q", len(lines), want, lines)
			}
			if err := r.st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
