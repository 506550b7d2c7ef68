package informer_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Objects outside the Identity's scope are not stored, and Status.Err names both scopes.
func TestListerWatcherOutOfScope(t *testing.T) {
	for name, tt := range map[string]struct {
		namespace, selector string
		stored              []string
		says                []string
	}{
		"namespace": {"a", "", []string{"a/1"}, []string{"namespace a,", "lists namespace b"}},
		"labels": {"", "value=x", []string{"a/1", "b/1"},
			[]string{"label selector value=x", "the ListerWatcher lists objects"}},
		"nothing is of the scope":   {"c", "", nil, []string{"all 3 objects", "namespace c,", "lists namespace "}},
		"all is of the scope":       {"", "value in (x,y)", []string{"a/1", "b/1", "b/2"}, nil},
		"nothing is of the labels ": {"", "value=z", nil, []string{"all 3 objects", "label selector value=z"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Identity = podsIdentity
				r.o.Identity.Namespace, r.o.Identity.LabelSelector = tt.namespace, tt.selector
				r.srv.write("a/1", "x")
				r.srv.write("b/1", "x")
				r.srv.write("b/2", "y")
				i := r.start()
				s := i.Status()
				for _, part := range tt.says {
					if s.Err == nil || !strings.Contains(s.Err.Error(), part) {
						t.Errorf("status says %v, want %s", s.Err, part)
					}
				}
				if tt.says == nil && s.Err != nil {
					t.Error(s.Err)
				}
				if got := i.GetStore().ListKeys(); strings.Join(got, " ") != strings.Join(tt.stored, " ") {
					t.Errorf("stored %q, want %q", got, tt.stored)
				}
				if all := len(tt.stored) > 0; s.Synced != all {
					t.Errorf("synced: %v", s.Synced)
				}
				r.srv.write("d/1", "v")
				r.srv.delete("d/1")
				synctest.Wait()
				if got := i.GetStore().ListKeys(); len(got) != len(tt.stored) {
					t.Errorf("stored %q, want %q", got, tt.stored)
				}
				r.close()
			})
		})
	}
}

// TestScopeErrorIsCleared checks that the stored resourceVersion does not pass an object outside the scope, so that a
// later ListerWatcher with the right scope misses no event.
func TestScopeErrorIsCleared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Identity = podsIdentity
		r.o.Identity.LabelSelector = "value=x"
		r.srv.write("a/1", "x")
		r.start()
		r.srv.write("a/2", "y")
		time.Sleep(20 * time.Minute)
		before := r.i.Status()
		if before.Err == nil || before.ResourceVersion != "101" {
			t.Errorf("%+v", before)
		}
		r.close()
		r.srv.delete("a/2")
		r.srv.compact()
		r.start()
		equal(t, "stored", r.stored(), r.srv.state())
		if s := r.i.Status(); s.Err != nil || s.ResourceVersion != "103" {
			t.Errorf("%+v", s)
		}
		r.close()
	})
}
