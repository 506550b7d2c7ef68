package informer_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
)

// TestLongNames checks that an object's key may have 16 KiB. An object with a longer key is not stored: the status
// counts it exactly and says why, a restart does not list, and the DELETED event clears it. Issue 38.
func TestLongNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		longest, tooLong := "a/"+strings.Repeat("n", entry.MaxKey-2), "a/"+strings.Repeat("n", entry.MaxKey-1)
		r.srv.write(longest, "x")
		r.srv.write(tooLong, "x")
		r.srv.write("a/"+strings.Repeat("m", 5000), "x")
		for range 2 {
			i := r.start()
			synctest.Wait()
			s := i.Status()
			if _, found, err := i.GetStore().GetByKey(longest); !found || err != nil || s.Objects != 2 {
				t.Errorf("%d objects, the one of the longest key is there: %t, %v", s.Objects, found, err)
			}
			text := "objects that could not be stored are missing, or older than the server's: 1 (their names are longer " +
				"than the 16384 bytes that can be stored)"
			if len(s.LeftOut) != 1 || s.LeftOutMore || s.LeftOut[0].Reason != entry.LeftOutKey || len(s.Notes) != 1 ||
				s.Notes[0].Text != text {
				t.Errorf("left out: %d, more %t, %+v", len(s.LeftOut), s.LeftOutMore, s.Notes)
			}
			r.close()
		}
		if n, _ := r.srv.requests(); n != 1 {
			t.Errorf("%d lists, want that of the first start", n)
		}
		i := r.start()
		r.srv.write(tooLong, "y")
		time.Sleep(time.Second)
		if s := i.Status(); len(s.LeftOut) != 1 || s.LeftOutMore {
			t.Errorf("after an update: left out: %d, more %t", len(s.LeftOut), s.LeftOutMore)
		}
		if report, err := i.Audit(t.Context()); err != nil || report.Listed {
			t.Errorf("audit: %+v, %v", report, err)
		}
		r.srv.delete(tooLong)
		time.Sleep(time.Second)
		if s := i.Status(); len(s.LeftOut) != 0 || s.LeftOutMore || len(s.Notes) != 0 {
			t.Errorf("after the delete: left out: %d, more %t, %+v", len(s.LeftOut), s.LeftOutMore, s.Notes)
		}
		r.close()
	})
}
