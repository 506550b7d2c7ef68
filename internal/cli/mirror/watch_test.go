package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

func TestMirrorWatch(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		for _, selector := range []string{"", "n=1"} {
			t.Run(fmt.Sprintf("kept for %s, selector %q", keep, selector), func(t *testing.T) {
				server := clitest.StartServer(t)
				for n := range 20 {
					clitest.CreatePod(t, server, "a", fmt.Sprint("old-", n), map[string]string{"n": fmt.Sprint(n % 2)})
				}
				mirrorUntil(t, server, filepath.Join(t.TempDir(), "s"), func(m *mirror, _ *store.Store) {
					m.members[0].keepChanges(t.Context(), keep)
					written := make(chan struct{})
					go func() {
						defer close(written)
						for n := range 100 {
							clitest.CreatePod(t, server, "a", fmt.Sprint("new-", n), map[string]string{"n": fmt.Sprint(n % 2)})
							if n%3 == 0 {
								if err := server.Delete(clitest.Pods.GroupVersionResource, "a", fmt.Sprint("new-", n)); err != nil {
									t.Error(err)
								}
							}
						}
					}()
					have, want, seen := map[string]string{}, map[string]string{}, map[string]bool{}
					errEqual := errors.New("equal")
					q := source.WatchQuery{Query: source.Query{Collection: m.members[0].identity.ID(), Selector: selector}, List: true}
					err := m.Watch(t.Context(), q, func(e source.Event) error {
						if e.Type == source.Bookmark {
							select {
							case <-written:
							default:
								return nil
							}
							clear(want)
							for _, u := range server.List(clitest.Pods.GroupVersionResource) {
								if selector == "" || u.GetLabels()["n"] == "1" {
									want[u.GetNamespace()+"/"+u.GetName()] = u.GetResourceVersion()
								}
							}
							if maps.Equal(have, want) {
								return errEqual
							}
							return nil
						}
						seen[e.Entry.Key] = true
						if e.Type == source.Deleted {
							delete(have, e.Entry.Key)
						} else {
							have[e.Entry.Key] = e.Entry.ResourceVersion
						}
						return nil
					})
					if !errors.Is(err, errEqual) || len(seen) == 0 {
						t.Errorf("%v: have %v, want %v", err, have, want)
					}
				})
			})
		}
	}
}

// TestMirrorEndsItsWatches checks that the watches of a mirror end before its informers, which wait for the handlers of
// the watches, and that their error reports the end of the sync.
func TestMirrorEndsItsWatches(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint("keep=", keep), func(t *testing.T) {
			server := clitest.StartServer(t)
			clitest.CreatePod(t, server, "a", "x", nil)
			var ended []<-chan error
			var m *mirror
			q := source.WatchQuery{List: true}
			mirrorUntil(t, server, filepath.Join(t.TempDir(), "s"), func(running *mirror, _ *store.Store) {
				m = running
				m.members[0].keepChanges(t.Context(), keep)
				q.Collection = m.members[0].identity.ID()
				for range 20 {
					ended = append(ended, watchOf(m, q))
				}
			})
			for _, end := range ended {
				if err := <-end; !errors.Is(err, source.ErrStopping) {
					t.Errorf("it ended with %v", err)
				}
			}
			err := m.Watch(t.Context(), q, func(source.Event) error { return nil })
			if !errors.Is(err, source.ErrStopping) {
				t.Errorf("one that comes afterwards: %v", err)
			}
		})
	}
}

// watchOf starts a watch and waits until it has delivered the existing objects. It returns the channel of the watch's
// error.
func watchOf(m *mirror, q source.WatchQuery) <-chan error {
	ended, listed := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- m.Watch(context.Background(), q, func(e source.Event) error {
			if e.Listed {
				close(listed)
			}
			return nil
		})
	}()
	<-listed
	return ended
}
