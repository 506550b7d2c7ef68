package informer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
)

// newHeld returns a process whose file holds 40 pods, more than the newest objects that a resume looks up.
func newHeld(t *testing.T) *process {
	p := newProcess(t)
	for n := range 40 {
		p.srv.Write(fmt.Sprintf("a/%02d", n), "x")
	}
	p.start(noBug)
	p.calls = nil
	return p
}

// lose makes changes at the server without events, as in a server restored from a backup.
func (p *process) lose() {
	p.srv.Silently(func() {
		p.srv.Write("a/lost", "x")
		p.srv.Delete("a/00")
		p.srv.Delete("a/01")
		p.srv.Write("a/02", "other")
	})
}

// relisted checks that the informer has listed n times because the server was rewound, and never for another reason.
func (p *process) relisted(n int) {
	p.t.Helper()
	s := p.i.Status()
	relists := s.Reflector.Relists
	if relists[reflector.ReasonRewound] != n || len(relists) != min(n, 1) || s.Err != nil || s.Source != informer.Live {
		p.t.Errorf("relists %v, want %d; source %s, %v", relists, n, s.Source, s.Err)
	}
}

// TestContradictedByTheStream checks that an event that contradicts the stored objects, such as MODIFIED for an unknown
// object, causes one list, which repairs everything. Issue 16, A13.
func TestContradictedByTheStream(t *testing.T) {
	for name, event := range map[string]func(srv TestServer){
		"MODIFIED, not held":    func(srv TestServer) { srv.Write("a/lost", "y") },
		"DELETED, not held":     func(srv TestServer) { srv.Delete("a/lost") },
		"ADDED for another one": func(srv TestServer) { srv.Write("a/00", "new") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newHeld(t)
				p.lose()
				event(p.srv)
				p.waitIdle()
				p.holds(p.srv.State()...)
				p.relisted(1)
				if calls := strings.Join(p.calls, ", "); !strings.Contains(calls, "update a/02@103=x to a/02@144=other") {
					t.Errorf("the handler received %s", calls)
				}
				p.end()
				lists := p.srv.Lists()
				p.start(noBug)
				p.calm(lists)
				p.end()
			})
		})
	}
}

// TestContradictedWhileItResumes checks that HasSynced waits for the list that a contradictory event causes.
func TestContradictedWhileItResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHeld(t)
		p.end()
		p.lose()
		for n := range 10 {
			p.srv.Write(fmt.Sprintf("a/%02d", n+20), "y")
		}
		p.srv.Write("a/lost", "y")
		p.srv.SetFail(func(verb string, o metav1.ListOptions) error {
			if verb == "list" && o.Limit != 1 {
				return errors.New("from the test")
			}
			return nil
		})
		p.start(noBug)
		if p.i.HasSynced() || p.i.Status().Source == informer.Live {
			t.Errorf("synced %v, from %s", p.i.HasSynced(), p.i.Status().Source)
		}
		p.srv.SetFail(nil)
		p.waitIdle()
		if !p.i.HasSynced() {
			t.Error("it has not synced")
		}
		p.holds(p.srv.State()...)
		p.relisted(1)
		p.end()
	})
}

// TestContradictedOnceAConnection checks that repeated contradictory events cause at most one list per connection.
func TestContradictedOnceAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHeld(t)
		p.lose()
		p.srv.Write("a/lost", "y")
		p.srv.Write("a/00", "y")
		p.waitIdle()
		p.holds(p.srv.State()...)
		p.relisted(1)
		for n := range 5 {
			key := fmt.Sprintf("a/lost-%d", n)
			p.srv.Silently(func() { p.srv.Write(key, "x") })
			p.srv.Write(key, "y")
			p.srv.Disconnect()
			p.waitIdle()
		}
		p.holds(p.srv.State()...)
		p.relisted(1)
		p.srv.Fail()
		p.waitIdle()
		p.relisted(1)
		p.srv.Silently(func() { p.srv.Write("a/lost-again", "x"); p.srv.Write("a/03", "other") })
		p.srv.Delete("a/lost-again")
		p.waitIdle()
		p.holds(p.srv.State()...)
		p.relisted(2)
		p.end()
	})
}

// TestContradictionIsStored checks that the process after the contradictory event lists, although its own checks at the
// resume find no difference.
func TestContradictionIsStored(t *testing.T) {
	for name, end := range map[string]func(p *process, goOn func()){
		"seen while the link is down": func(p *process, goOn func()) { goOn(); synctest.Wait(); p.end() },
		"seen while the process ends": func(p *process, goOn func()) { time.AfterFunc(time.Second, goOn); p.end() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newHeld(t)
				p.lose()
				busy := make(chan struct{})
				p.atIndex = func(value string) {
					if value == "y" {
						<-busy
					}
				}
				p.srv.Write("a/lost", "y")
				synctest.Wait()
				p.srv.SetFail(func(string, metav1.ListOptions) error { return errors.New("from the test") })
				p.srv.Fail()
				synctest.Wait()
				if s := p.i.Status(); s.Reflector.State != reflector.Backoff || len(s.Reflector.Relists) > 0 {
					t.Errorf("the link is not down: %+v", s.Reflector)
				}
				end(p, func() { close(busy) })
				p.srv.SetFail(nil)
				p.start(noBug)
				p.holds(p.srv.State()...)
				p.relisted(1)
				p.end()
				lists := p.srv.Lists()
				p.start(noBug)
				p.calm(lists)
				p.end()
			})
		})
	}
}

func TestNoContradiction(t *testing.T) {
	for name, run := range map[string]func(p *process){
		"replaced in one batch":   func(p *process) { p.srv.Delete("a/00"); p.srv.Write("a/00", "y"); p.srv.Delete("a/00") },
		"replaced in two batches": func(p *process) { p.srv.Delete("a/00"); p.waitIdle(); p.srv.Write("a/00", "y") },
		"replaced, a bookmark between": func(p *process) {
			p.srv.Delete("a/00")
			p.srv.Bookmark()
			p.waitIdle()
			p.srv.Bookmark()
			p.srv.Write("a/00", "y")
			p.srv.Write("a/00", "z")
		},
		"replaced while down": func(p *process) {
			p.end()
			p.srv.Delete("a/00")
			p.srv.Write("a/00", "y")
			p.srv.Write("a/new", "y")
			p.srv.Write("a/new", "z")
			p.srv.Delete("a/new")
			p.start(noBug)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newHeld(t)
				lists := p.srv.Lists()
				run(p)
				p.waitIdle()
				p.holds(p.srv.State()...)
				p.calm(lists)
				p.end()
			})
		})
	}
}

// TestLeftOutIsNoContradiction checks events about an object that is not stored because its transform fails.
func TestLeftOutIsNoContradiction(t *testing.T) {
	forBoth(t, func(t *testing.T, b bug) {
		p := newProcess(t)
		p.start(b)
		lists := p.srv.Lists()
		for _, pause := range []func(){func() {}, p.waitIdle} {
			for _, write := range []func(key string){
				func(key string) { p.srv.Write(key, "bad"); pause(); p.srv.Write(key, "y") },
				func(key string) { p.srv.Write(key, "bad"); pause(); p.srv.Delete(key) },
				func(key string) { p.srv.Write(key, "bad"); pause(); p.srv.Delete(key); p.srv.Write(key, "y") },
				func(key string) {
					p.srv.Write(key, "x")
					pause()
					p.srv.Delete(key)
					p.srv.Write(key, "bad")
					pause()
					p.srv.Write(key, "y")
				},
			} {
				for _, key := range []string{"a/1", "a/2"} {
					write(key)
					p.waitIdle()
					p.srv.Delete(key)
				}
			}
		}
		p.srv.Write("a/3", "y")
		p.waitIdle()
		p.holds(p.srv.State()...)
		p.calm(lists)
		p.end()
	})
}

// TestListInProgressIsNoContradiction checks an event that arrives before the object's page of a paged list.
func TestListInProgressIsNoContradiction(t *testing.T) {
	for _, cold := range []bool{true, false} {
		t.Run(fmt.Sprintf("cold=%v", cold), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t)
				if !cold {
					p.start(noBug)
					p.end()
				}
				for n := range 200 {
					p.srv.Write(fmt.Sprintf("a/%03d", n), "x")
				}
				p.srv.Compact()
				lists := p.srv.Lists()
				p.srv.AtPage(func() {
					p.srv.Write("a/198", "y")
					p.srv.Delete("a/199")
					p.srv.Delete("a/000")
					p.srv.Write("a/000", "y")
				})
				p.start(noBug)
				p.holds(p.srv.State()...)
				if n := p.srv.Lists() - lists; n != 1 || p.i.Status().Reflector.Relists[reflector.ReasonRewound] > 0 {
					t.Errorf("%d lists, %v", n, p.i.Status().Reflector.Relists)
				}
				p.end()
			})
		})
	}
}
