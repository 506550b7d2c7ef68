package informer_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// backup is a copy of the server's objects and events at one resourceVersion.
type backup struct {
	rv      int
	pods    map[string]*corev1.Pod
	history []watch.Event
}

func (s *server) backup() backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return backup{s.rv, maps.Clone(s.pods), slices.Clone(s.history)}
}

// restore makes the server go back to a backup, and ends all watches.
func (s *server) restore(b backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv, s.pods, s.history = b.rv, maps.Clone(b.pods), slices.Clone(b.history)
	clear(s.pages)
	s.disconnectLocked()
}

// elsewhere advances the server's resourceVersion by n, as n writes of other resources do.
func (s *server) elsewhere(n int) {
	s.mu.Lock()
	s.rv += n
	s.mu.Unlock()
}

// lose makes a backup of the server and then writes objects: a/0 at 105, a/1 at 106, and a/2 at 107. again restores the
// backup, and writes the first n of these objects with another value under those resourceVersions.
func lose(s *server, lost int) (again func(n int)) {
	for _, key := range []string{"a/0", "a/1", "a/2", "a/3"} {
		s.write(key, "x")
	}
	b := s.backup()
	write := func(value string, n int) {
		for _, key := range []string{"a/0", "a/1", "a/2"}[:n] {
			s.write(key, value)
		}
	}
	write("lost", lost)
	return func(n int) {
		s.restore(b)
		write("other", n)
	}
}

// TestRewindKeepsNoLostBodies checks that a rewind is noticed although an object has the UID and resourceVersion of its
// lost state, and other contents. Issue 16, A1.
func TestRewindKeepsNoLostBodies(t *testing.T) {
	for name, test := range map[string]struct {
		lost, elsewhere, again, beyond int
		reason                         reflector.Reason
	}{
		"the server is behind": {1, 5, 1, 0, reflector.ReasonAhead},
		"the server is past":   {3, 0, 2, 5, reflector.ReasonRewound},
	} {
		for residency, r := range eachResidency {
			for _, running := range []bool{true, false} {
				t.Run(name+", "+residency+map[bool]string{true: ", running", false: ", down"}[running], func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						rig := newRig(t)
						rig.o.Residency = r
						again := lose(rig.srv, test.lost)
						rig.srv.elsewhere(test.elsewhere)
						h := &recorder{}
						i := rig.start(h)
						if !running {
							rig.close()
						}
						again(test.again)
						for range test.beyond {
							rig.srv.write("b/beyond", "y")
						}
						if !running {
							h = &recorder{}
							i = rig.start(h)
						}
						time.Sleep(5 * time.Minute)
						synctest.Wait()
						equal(t, "store", rig.stored(), rig.srv.state())
						if n := len(slices.DeleteFunc(h.take(), func(l string) bool {
							return l != "update a/0@105=lost to a/0@105=other"
						})); n != 1 {
							t.Errorf("the handler received the difference %d times", n)
						}
						if s := i.Status(); s.Reflector.Relists[test.reason] != 1 || len(s.Reflector.Relists) != 1 {
							t.Errorf("relists %v", s.Reflector.Relists)
						}
						rig.close()
					})
				})
			}
		}
	}
}

// TestRewindIsStored checks that the process after a rewind lists if the first process ends before the list. By then
// the server's resourceVersion exceeds the stored one, and looking up the newest objects finds no difference.
func TestRewindIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		again := lose(r.srv, 1)
		r.srv.elsewhere(5)
		r.start()
		r.close()
		again(1)
		r.srv.setFail(failLists)
		i := r.start()
		if s := i.Status(); s.Reflector.State != reflector.Backoff || len(s.Reflector.Relists) > 0 {
			t.Errorf("the rewind was not seen, or the list was made: %+v", s.Reflector)
		}
		r.close()
		r.srv.setFail(nil)
		r.srv.elsewhere(10)
		i = r.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "store", r.stored(), r.srv.state())
		if s := i.Status(); s.Reflector.Relists[reflector.ReasonAhead] != 1 || len(s.Reflector.Relists) != 1 {
			t.Errorf("relists %v", s.Reflector.Relists)
		}
		r.close()
		if s := r.start().Status(); s.Reflector.Lists > 0 {
			t.Errorf("the start after that: %+v", s.Reflector)
		}
		r.close()
	})
}
