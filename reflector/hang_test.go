package reflector_test

import (
	"context"
	"errors"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestHangingResourcesDoNotHurtOthers checks kubernetes#101078 and issue 38: the conversion webhook of half of 60
// resources does not answer, so that their requests fail after 30 s. All other resources must be live nearly as soon as
// without them: after a start, a lost connection, and a restart of the API server.
func TestHangingResourcesDoNotHurtOthers(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("conversion webhook failed: context deadline exceeded"))
	const all, hanging = 60, 30
	run := func(t *testing.T, what string, hangs bool) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			hang := func(m *member) {
				m.answers(func(ctx context.Context) error {
					trace := httptrace.ContextClientTrace(ctx)
					trace.GetConn("")
					trace.GotConn(httptrace.GotConnInfo{})
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(30 * time.Second):
						return broken
					}
				})
			}
			g := newFleet(t, all, func(i int, m *member) {
				if hangs && what == "start" && i < hanging {
					hang(m)
				}
			})
			if what != "start" {
				time.Sleep(5 * time.Minute)
				for i, m := range g.members {
					if hangs && i < hanging {
						hang(m)
					}
					if what == "API server restart" {
						m.put("a/missed", "1")
						m.compact()
					}
					m.cut(nil)
					m.put("a/new", "1")
				}
				synctest.Wait()
			}
			begun := time.Now()
			healthy := func() (n int) {
				for _, m := range g.members[hanging:] {
					if m.r.Live() && m.equal(m.server) {
						n++
					}
				}
				return n
			}
			for healthy() < all-hanging && time.Since(begun) < 5*time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			took = time.Since(begun)
			g.end()
		})
		return took
	}
	for _, what := range []string{"start", "reconnect", "API server restart"} {
		t.Run(what, func(t *testing.T) {
			without := run(t, what, false)
			with := run(t, what, true)
			t.Logf("without %v, with %v", without, with)
			if with > 2*without+2*time.Second {
				t.Errorf("live after %v, and without the hanging ones after %v", with, without)
			}
		})
	}
}
