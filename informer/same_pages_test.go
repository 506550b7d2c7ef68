package informer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
)

// TestComparisonInPages: a start compares a collection of several pages to its end or to the first difference, unless
// the link is so thin that a bookmark comes sooner. Issue 16, C.
func TestComparisonInPages(t *testing.T) {
	const page = reflector.DefaultPageSize
	key := func(n int) string { return fmt.Sprintf("a/%05d", n) }
	for _, tt := range []struct {
		name    string
		objects int
		change  func(s *server)
		takes   time.Duration // each page
		pages   int           // that are asked for
		same    bool
	}{
		{name: "one full page", objects: page, pages: 1, same: true},
		{name: "two full pages", objects: 2 * page, pages: 2, same: true},
		{name: "one object more", objects: 2*page + 1, pages: 3, same: true},
		{name: "the first has changed", objects: 2*page + 1, pages: 1, change: func(s *server) { s.write(key(0), "new") }},
		{name: "one of the second page is another", objects: 2*page + 1, pages: 2, change: func(s *server) {
			s.delete(key(page + 7))
			s.write(key(page+7), "new")
		}},
		{name: "the last is gone", objects: 2*page + 1, pages: 2, change: func(s *server) { s.delete(key(2 * page)) }},
		{name: "one after two full pages", objects: 2 * page, pages: 3, change: func(s *server) {
			s.write("b/x", "new")
		}},
		{name: "a thin link", objects: 2*page + 1, pages: 1, takes: 600 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				pages := 0
				r.o.ListMetadata = func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
					if o.TimeoutSeconds != nil {
						pages++
						time.Sleep(tt.takes)
					}
					return r.srv.listMetadata(ctx, o)
				}
				for n := range tt.objects {
					r.srv.write(key(n), "old")
				}
				r.start()
				r.close()
				if tt.change != nil {
					tt.change(r.srv)
				}
				r.srv.elsewhere(3) // or the server's resourceVersion would say that nothing has changed
				i := r.start()
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "stored", r.stored(), r.srv.state())
				s := i.Status()
				if pages != tt.pages || (s.Reflector.Lookups == 0) != tt.same || s.Reflector.Lists != 0 ||
					s.Source != informer.Live {
					t.Errorf("%d pages, %d look-ups, %d lists, source %s", pages, s.Reflector.Lookups, s.Reflector.Lists, s.Source)
				}
				r.close()
			})
		})
	}
}
