package informer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// large returns a label value that makes a pod of about 3 KB.
func large(n int) string { return fmt.Sprintf("%d-%s", n, strings.Repeat("x", 3000)) }

// TestMaxSize checks that changes that do not fit into the file are served from memory, and committed once the file has
// space.
func TestMaxSize(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.so.MaxSize = 12 << 20
		for n := range 500 {
			r.srv.write(fmt.Sprintf("a/%04d", n), large(n))
		}
		h := &recorder{}
		i := r.start(h)
		for n := 500; n < 4500; n++ {
			r.srv.write(fmt.Sprintf("a/%04d", n), large(n))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := i.Status(); !errors.Is(s.Err, store.ErrNoSpace) || s.Objects != 4500 || s.Source != informer.Live {
			t.Errorf("with more than fits: %d objects, source %s, %v", s.Objects, s.Source, s.Err)
		}
		if n := len(h.take()); n != 4500 {
			t.Errorf("the handler received %d objects", n)
		}
		equal(t, "reads", r.stored(), r.srv.state())
		for n := 500; n < 4500; n++ {
			r.srv.delete(fmt.Sprintf("a/%04d", n))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := i.Status(); s.Err != nil || r.st.Pending() != 0 {
			t.Errorf("with room again: %d bytes pending, %v", r.st.Pending(), s.Err)
		}
		equal(t, "reads with room again", r.stored(), r.srv.state())
		for n := 100; n < 500; n++ { // deletes free space in the file
			r.srv.delete(fmt.Sprintf("a/%04d", n))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.close()

		r.so.MaxSize = 1 << 20
		i = r.start()
		if lists, _ := r.srv.requests(); lists != 1 {
			t.Errorf("%d lists", lists)
		}
		r.srv.write("a/0001", "small")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := i.Status(); s.Err != nil || r.st.Pending() != 0 {
			t.Errorf("a write that fits into a file which is too large: %d bytes pending, %v", r.st.Pending(), s.Err)
		}
		equal(t, "reads of a file that is too large", r.stored(), r.srv.state())
		r.close()
	})
}

// TestMaxSizeTooSmall checks that a first list that does not fit into the file prevents the sync until a start with a
// larger MaxSize.
func TestMaxSizeTooSmall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.so.MaxSize, r.o.PageSize = 8<<20, 500
		for n := range 4000 {
			r.srv.write(fmt.Sprintf("a/%04d", n), large(n))
		}
		i := r.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		s := i.Status()
		// Objects that do not fit into the file are in memory.
		if !errors.Is(s.Err, store.ErrNoSpace) || s.Synced || s.Objects != 4000 {
			t.Errorf("synced %v, source %s, %d objects, %v", s.Synced, s.Source, s.Objects, s.Err)
		}
		if got := r.stored(); len(got) != s.Objects {
			t.Errorf("%d of %d objects can be read", len(got), s.Objects)
		}
		r.close()
		r.so.MaxSize = 64 << 20
		i = r.start()
		if s := i.Status(); s.Err != nil || !s.Synced || s.Source != informer.Live {
			t.Errorf("with room: synced %v, source %s, %v", s.Synced, s.Source, s.Err)
		}
		equal(t, "what is stored in the end", r.stored(), r.srv.state())
		r.close()
	})
}
