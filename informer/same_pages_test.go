package informer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
)

// TestRequestsOfARestart checks that a restart needs two requests for a collection of up to 10,000 objects, with any
// changes, and at most seven for a larger one. Issue 38, A.1.
func TestRequestsOfARestart(t *testing.T) {
	key := func(n int) string { return fmt.Sprintf("a/%05d", n) }
	update := func(s *server, from, to int) {
		for n := from; n < to; n++ {
			s.write(key(n), "new")
		}
	}
	for _, tt := range []struct {
		name     string
		objects  int
		change   func(s *server)
		requests int
	}{
		{name: "none", objects: 3, requests: 2},
		{name: "one of each kind", objects: 10, requests: 2, change: func(s *server) {
			update(s, 0, 1)
			s.delete(key(1))
			s.write("b/x", "new")
			s.delete(key(2))
			s.write(key(2), "another")
		}},
		{name: "all", objects: 30, requests: 2, change: func(s *server) { update(s, 0, 30) }},
		{name: "twenty of the most", objects: 10_000, requests: 2, change: func(s *server) { update(s, 0, 20) }},
		{name: "many more", objects: 10, requests: 2, change: func(s *server) { update(s, 10, 900) }},
		{name: "one too many", objects: 10_001, requests: 7, change: func(s *server) {
			update(s, 9_990, 10_001)
			s.delete(key(7))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.ListMetadata = r.srv.listMetadata
				for n := range tt.objects {
					r.srv.write(key(n), "old")
				}
				r.start()
				r.close()
				if tt.change != nil {
					tt.change(r.srv)
				}
				// Otherwise the server's unchanged resourceVersion would show that no object has changed.
				r.srv.elsewhere(3)
				begun := time.Now()
				i := r.start()
				<-i.HasSyncedChecker().Done()
				s := i.Status().Reflector
				if n := s.Watches + s.Comparisons + s.Probes + s.Pages; n > tt.requests || s.Lists != 0 {
					t.Errorf("%d requests until HasSynced, want %d: %+v", n, tt.requests, s)
				}
				// No fake time has passed, so the informer has waited for nothing.
				if took := time.Since(begun); tt.requests == 2 && took > 0 {
					t.Errorf("synced after %v", took)
				}
				equal(t, "stored", r.stored(), r.srv.state())
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "stored later", r.stored(), r.srv.state())
				if s := i.Status(); s.Source != informer.Live || s.Reflector.Lists != 0 {
					t.Errorf("source %s, %d lists", s.Source, s.Reflector.Lists)
				}
				r.close()
			})
		})
	}
}

// TestComparisonOverASlowLink checks that a start does not wait for the list of metadata if a bookmark arrives earlier.
func TestComparisonOverASlowLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ListMetadata = func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			if o.Limit > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return r.srv.listMetadata(ctx, o)
		}
		r.srv.write("a/x", "old")
		r.start()
		r.close()
		r.srv.write("a/x", "new")
		i := r.start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "stored", r.stored(), r.srv.state())
		if s := i.Status(); s.Source != informer.Live || s.Reflector.Lists != 0 || s.Reflector.Comparisons != 1 {
			t.Errorf("source %s, %+v", s.Source, s.Reflector)
		}
		r.close()
	})
}

func TestComparisonOfAnIncompleteList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ListMetadata = func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			list, err := r.srv.listMetadata(ctx, o)
			if err == nil && o.Limit > 1 {
				list.Items, list.Continue = list.Items[:1], "more"
			}
			return list, err
		}
		for _, key := range []string{"a/x", "a/y", "a/z"} {
			r.srv.write(key, "old")
		}
		r.start()
		r.close()
		r.srv.elsewhere(3)
		i := r.start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := i.Status(); !s.Synced || s.Reflector.Lists != 0 || s.Reflector.Comparisons != 1 || s.Reflector.Lookups == 0 {
			t.Errorf("synced %v, %+v", s.Synced, s.Reflector)
		}
		equal(t, "stored", r.stored(), r.srv.state())
		r.close()
	})
}
