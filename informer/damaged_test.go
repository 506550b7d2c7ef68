package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

var eachResidency = map[string]store.Residency{"all": store.All, "none": store.None}

// TestDamagedRecordsAreListedAgain checks that a start on a file with damaged records restores the lost objects within
// ten seconds, though no events arrive. OnDelete is not called for a damaged object that the server has deleted: no
// handler knew it in this run.
func TestDamagedRecordsAreListedAgain(t *testing.T) {
	for name, residency := range eachResidency {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Residency = residency
				r.o.Indexers = cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc}
				for n := range 30 {
					r.srv.write(fmt.Sprintf("a/%02d", n), "x")
				}
				r.start()
				r.close()
				storetest.Flip(t, r.path, "a/03", "a/05")
				r.srv.swallow(func() { r.srv.delete("a/05") })
				h := &recorder{}
				i := r.start(h)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				s := i.Status()
				if !s.Synced || s.Source != informer.Live || s.Err != nil || s.Reflector.Relists[reflector.ReasonDamaged] != 1 ||
					s.Reflector.Lists != 1 {
					t.Errorf("status %+v", s)
				}
				equal(t, "store", r.stored(), r.srv.state())
				calls := h.take()
				if n := len(slices.DeleteFunc(slices.Clone(calls),
					func(l string) bool { return !strings.HasPrefix(l, "add a/03@104=x") })); n != 1 || len(calls) > 31 {
					t.Errorf("a/03 was received %d times: %q", n, calls)
				}
				if len(s.Incidents) != 1 || s.Incidents[audit.CauseDamaged] != 1 {
					t.Errorf("incidents %v", s.Incidents)
				}
				r.close()

				i = r.start()
				if s := i.Status(); s.Reflector.Lists > 0 || !s.Synced {
					t.Errorf("after the repair the next start: %+v", s.Reflector)
				}
				r.close()
			})
		})
	}
}

func TestAuditFindsMissingRecords(t *testing.T) {
	for name, residency := range eachResidency {
		for _, indexed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, index %v", name, indexed), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t)
					r.o.Residency = residency
					if indexed {
						r.o.Indexers = cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc}
					}
					for n := range 30 {
						r.srv.write(fmt.Sprintf("a/%02d", n), "x")
					}
					r.start()
					r.close()
					storetest.Punch(t, r.path, "a/03", "a/05", "a/07")
					h := &recorder{}
					i := r.start(h)
					if s := i.Status(); s.Reflector.Lists > 0 || !s.Synced {
						t.Fatalf("the start has met the holes: %+v", s)
					}
					if len(h.take()) != 27 {
						t.Error("the handler did not receive 27 objects")
					}
					if indexed {
						// The audit verifies the file, and finds index entries without a record. The next start repairs the file.
						if _, err := r.auditErr(); !errors.Is(err, entry.ErrDamaged) {
							t.Errorf("the audit: %v", err)
						}
						<-r.done
						_ = r.st.Close()
						i = r.start(h)
						if len(h.take()) != 27 || r.st.Quarantined() == "" {
							t.Errorf("the next start: moved aside %q", r.st.Quarantined())
						}
					}
					report := r.audit()
					equal(t, "keys", report.Keys, []string{"a/03", "a/05", "a/07"})
					equal(t, "store", r.stored(), r.srv.state())
					equal(t, "handler", h.take(), []string{"add a/03@104=x", "add a/05@106=x", "add a/07@108=x"})
					if s := i.Status(); s.Reflector.Relists[reflector.ReasonAudit] != 1 ||
						s.Incidents[audit.CauseAudit] != 1 {
						t.Errorf("status %+v", s)
					}
					r.close()
				})
			})
		}
	}
}

// crashes copies a store's file, and the file's .opening companion, before and after each commit. Each copy is the
// state that a killed process would leave.
type crashes struct {
	t    *testing.T
	path string

	mu     sync.Mutex
	images []string
}

// Commit is the store's Commit hook. It copies the files before and after the commit.
func (c *crashes) Commit(commit func() error) error {
	c.image()
	if err := commit(); err != nil {
		return err
	}
	c.image()
	return nil
}

func (c *crashes) image() {
	to := filepath.Join(c.t.TempDir(), "larder.db")
	for _, suffix := range []string{"", ".opening"} {
		data, err := os.ReadFile(c.path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(to+suffix, data, 0o600)
		}
		if err != nil {
			c.t.Error(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images = append(c.images, to)
}

func (c *crashes) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.images = nil }()
	return c.images
}

// silentHole fails the test if the file lacks objects, and the store neither demands a list nor reports a problem.
func silentHole(t *testing.T, path string, objects int) {
	t.Helper()
	quiet := logr.Discard()
	st, err := store.Open(path, store.Options{Logger: &quiet, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	infos, err := st.Collections(context.Background())
	if err != nil || len(infos) != 1 {
		t.Fatalf("%d collections, %v", len(infos), err)
	}
	report, err := st.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if infos[0].MustRelist == "" && len(report.Problems) == 0 && infos[0].Objects != objects {
		t.Errorf("%d of %d objects, and nothing says that others are lost", infos[0].Objects, objects)
	}
}

// TestKilledBetweenRepairAndList kills the process at each commit between the damage of the file and the end of the
// list that repairs it. The file must always reveal the missing objects, and the next start must restore them.
func TestKilledBetweenRepairAndList(t *testing.T) {
	for name, residency := range eachResidency {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Residency = residency
				r.o.Indexers = cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc}
				const objects = 20
				for n := range objects {
					r.srv.write(fmt.Sprintf("a/%02d", n), "x")
				}
				r.start()
				r.close()
				storetest.Flip(t, r.path, "a/03", "a/05")

				at := &crashes{t: t, path: r.path}
				r.so.Hooks = &hook.Hooks{Commit: at.Commit}
				r.srv.setFail(failLists)
				i := r.start()
				time.Sleep(time.Minute)
				synctest.Wait()
				if info, err := informer.Store(i).Info(context.Background()); err != nil ||
					info.MustRelist != store.MustRelistDamaged {
					t.Fatalf("the damage has not been found: %+v, %v", info, err)
				}
				between := len(at.images)
				at.image()
				r.srv.setFail(nil)
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if info, err := informer.Store(i).Info(context.Background()); err != nil || info.MustRelist != "" ||
					info.Objects != objects {
					t.Fatalf("the objects have not been listed: %+v, %v", info, err)
				}
				r.close()
				images := at.take()
				if len(images) < between+2 {
					t.Fatalf("%d images, %d of them before the list", len(images), between)
				}
				for n, path := range images {
					silentHole(t, path, objects)
					next := &rig{t: t, srv: r.srv, path: path, o: r.o}
					i := next.start()
					time.Sleep(5 * time.Minute)
					synctest.Wait()
					s := i.Status()
					if !s.Synced || s.Source != informer.Live || s.Err != nil {
						t.Errorf("image %d of %d: %+v", n, len(images), s)
					}
					equal(t, fmt.Sprintf("image %d of %d", n, len(images)), next.stored(), r.srv.state())
					next.close()
				}
			})
		})
	}
}
