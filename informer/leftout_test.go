package informer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// bug is a programming error in a test program, because of which pods with the value "bad" cannot be stored.
type bug string

const (
	noBug        bug = ""
	badTransform bug = "transform"
	badIndex     bug = "index"
)

// process runs programs one after the other on one store file.
type process struct {
	t    *testing.T
	srv  TestServer
	path string

	st    *store.Store
	i     *informer.Informer
	calls []string
	stop  func()
	// atIndex, if set, is called with the value of each pod when the pod is indexed.
	atIndex func(value string)
}

func newProcess(t *testing.T) *process {
	return &process{t: t, srv: NewTestServer(), path: filepath.Join(t.TempDir(), "larder.db")}
}

// start runs a program with the given bug, and waits until its informer has resumed.
func (p *process) start(b bug) {
	p.t.Helper()
	quiet := logr.Discard()
	st, err := store.Open(p.path, store.Options{Logger: &quiet})
	if err != nil {
		p.t.Fatal(err)
	}
	p.st, p.calls = st, nil
	p.i, err = informer.New(p.srv, &corev1.Pod{}, informer.Options{
		Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
		Store:    st, Residency: testresidency.Of(p.t), Logger: &quiet, PageSize: 50,
		TransformVersion: informer.Unversioned,
		Indexers: cache.Indexers{"value": func(obj any) ([]string, error) {
			value := obj.(*corev1.Pod).Labels["value"]
			if b == badIndex && value == "bad" {
				panic("from the test")
			}
			if p.atIndex != nil {
				p.atIndex(value)
			}
			return []string{value}, nil
		}},
	})
	if err == nil && b == badTransform {
		err = p.i.SetTransform(func(obj any) (any, error) {
			if pod, ok := obj.(*corev1.Pod); ok && pod.Labels["value"] == "bad" {
				return nil, errors.New("from the test")
			}
			return obj, nil
		})
	}
	if err == nil {
		_, err = p.i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { p.calls = append(p.calls, "add "+Describe(obj)) },
			UpdateFunc: func(old, new any) {
				p.calls = append(p.calls, "update "+Describe(old)+" to "+Describe(new))
			},
			DeleteFunc: func(obj any) { p.calls = append(p.calls, fmt.Sprintf("delete %T", obj)) },
		})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.i.RunWithContext(ctx)
	}()
	p.stop = func() { cancel(); <-done }
	p.waitIdle()
}

func (p *process) waitIdle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func (p *process) end() {
	p.t.Helper()
	p.stop()
	report, err := p.st.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		p.t.Errorf("Check: %v, %q", err, report.Problems)
	}
	if err := p.st.Close(); err != nil {
		p.t.Error(err)
	}
}

// holds checks the objects that readers of the informer's store get.
func (p *process) holds(want ...string) {
	p.t.Helper()
	var got []string
	for _, obj := range p.i.GetIndexer().List() {
		got = append(got, Describe(obj))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		p.t.Errorf("it holds %q, want %q", got, want)
	}
}

func (p *process) leftOut(want ...string) {
	p.t.Helper()
	var got []string
	s := p.i.Status()
	for _, l := range s.LeftOut {
		got = append(got, fmt.Sprintf("%s@%s: %s", l.Key, l.ResourceVersion, l.Reason))
	}
	if !slices.Equal(got, want) || s.LeftOutMore {
		p.t.Errorf("left out: %q, others %v; want %q", got, s.LeftOutMore, want)
	}
}

// calm checks that the informer has resumed without lists, incidents or unexpected errors.
func (p *process) calm(lists int) {
	p.t.Helper()
	s := p.i.Status()
	missing := slices.ContainsFunc(s.LeftOut, func(l entry.LeftOut) bool { return l.Reason == entry.LeftOutIndex })
	if (s.Err != nil) != missing || s.Source != informer.Live || len(s.Reflector.Relists) > 0 ||
		len(s.Incidents) > 0 {
		p.t.Errorf("status: %v, source %s, relists %v, incidents %v", s.Err, s.Source, s.Reflector.Relists, s.Incidents)
	}
	if n := p.srv.Lists() - lists; n != 0 {
		p.t.Errorf("%d lists", n)
	}
}

var bothBugs = []bug{badTransform, badIndex}

func forBoth(t *testing.T, fn func(t *testing.T, b bug)) {
	for _, b := range bothBugs {
		t.Run(string(b), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fn(t, b) })
		})
	}
}

// TestLeftOutIsRestored checks that the second process restores, without a list, an object that the first could not
// store. Issue 16, A2.
func TestLeftOutIsRestored(t *testing.T) {
	forBoth(t, func(t *testing.T, b bug) {
		p := newProcess(t)
		p.srv.Write("a/1", "x")
		p.start(b)
		p.srv.Write("a/2", "bad")
		p.srv.Write("a/3", "x")
		p.waitIdle()
		p.leftOut("a/2@102: " + string(b))
		p.end()

		lists := p.srv.Lists()
		p.start(noBug)
		p.holds("a/1@101=x", "a/2@102=bad", "a/3@103=x")
		if !slices.Contains(p.calls, "add a/2@102=bad") {
			t.Errorf("the handler received %q", p.calls)
		}
		p.leftOut()
		p.calm(lists)
		p.end()
		p.start(noBug)
		p.holds("a/1@101=x", "a/2@102=bad", "a/3@103=x")
		p.calm(lists)
		p.end()
	})
}

// TestLeftOutByAList checks objects that could not be stored during a first list or a relist.
func TestLeftOutByAList(t *testing.T) {
	for _, relist := range []bool{false, true} {
		t.Run(fmt.Sprintf("relist=%v", relist), func(t *testing.T) {
			forBoth(t, func(t *testing.T, b bug) {
				p := newProcess(t)
				if relist {
					p.srv.Write("a/1", "x")
					p.srv.Write("a/2", "x")
					p.start(b)
					p.end()
				} else {
					p.srv.Write("a/2", "x")
				}
				p.srv.Write("a/1", "bad")
				p.srv.Write("a/0", "bad")
				p.srv.Compact()
				p.start(b)
				rv := map[bool]string{false: "102", true: "103"}[relist]
				p.leftOut("a/0@"+map[bool]string{false: "103", true: "104"}[relist]+": "+string(b), "a/1@"+rv+": "+string(b))
				if relist {
					p.holds("a/1@101=x", "a/2@102=x")
				}
				p.end()
				lists := p.srv.Lists()
				p.start(noBug)
				p.holds(p.srv.State()...)
				p.leftOut()
				p.calm(lists)
				p.end()
			})
		})
	}
}

// TestLeftOutIsNoRewind checks that an update that could not be stored does not look like a rewound server. A program
// with the same codec fault resumes its watch after a restart, and Status.LeftOut keeps the object. Issue 16, A7.
func TestLeftOutIsNoRewind(t *testing.T) {
	forBoth(t, func(t *testing.T, b bug) {
		p := newProcess(t)
		p.srv.Write("a/1", "x")
		p.srv.Write("a/2", "x")
		p.start(b)
		p.srv.Write("a/2", "bad")
		p.waitIdle()
		p.holds("a/1@101=x", "a/2@102=x")
		p.end()
		lists := p.srv.Lists()
		for range 2 {
			p.start(b)
			p.holds("a/1@101=x", "a/2@102=x")
			p.leftOut("a/2@103: " + string(b))
			p.calm(lists)
			p.srv.Disconnect()
			p.waitIdle()
			p.calm(lists)
			p.end()
		}
		p.start(noBug)
		p.holds("a/1@101=x", "a/2@103=bad")
		p.leftOut()
		p.calm(lists)
		p.end()
	})
}

// TestLeftOutChangesMeanwhile checks objects that could not be stored and that change while no process runs.
func TestLeftOutChangesMeanwhile(t *testing.T) {
	forBoth(t, func(t *testing.T, b bug) {
		p := newProcess(t)
		p.start(b)
		for _, key := range []string{"a/deleted", "a/recreated", "a/updated"} {
			p.srv.Write(key, "bad")
		}
		p.waitIdle()
		p.end()
		p.srv.Delete("a/deleted")
		p.srv.Delete("a/recreated")
		p.srv.Write("a/recreated", "new")
		p.srv.Write("a/updated", "y")
		lists := p.srv.Lists()
		p.start(noBug)
		p.holds("a/recreated@106=new", "a/updated@107=y")
		p.leftOut()
		p.calm(lists)
		if n := len(slices.DeleteFunc(p.calls, func(c string) bool { return c[:3] != "add" })); n != 2 {
			t.Errorf("the handler received %q", p.calls)
		}
		p.end()
	})
}

func TestLeftOutUntilTheNextEvent(t *testing.T) {
	forBoth(t, func(t *testing.T, b bug) {
		p := newProcess(t)
		p.start(b)
		p.srv.Write("a/1", "bad")
		p.srv.Write("a/2", "bad")
		p.waitIdle()
		p.leftOut("a/1@101: "+string(b), "a/2@102: "+string(b))
		p.srv.Write("a/1", "good")
		p.srv.Delete("a/2")
		p.waitIdle()
		p.leftOut()
		p.end()
		lists := p.srv.Lists()
		p.start(b)
		p.holds("a/1@103=good")
		p.leftOut()
		p.calm(lists)
		p.end()
	})
}

// TestLeftOutTooMany checks that a later process lists if the file cannot name all left-out objects.
func TestLeftOutTooMany(t *testing.T) {
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprintf("first list=%v", cold), func(t *testing.T) {
			forBoth(t, func(t *testing.T, b bug) {
				p := newProcess(t)
				if !cold {
					p.start(b)
				}
				for n := range entry.MaxLeftOut + 1 {
					p.srv.Write(fmt.Sprintf("a/%03d", n), "bad")
				}
				if cold {
					p.start(b)
				}
				p.waitIdle()
				p.holds()
				p.end()
				for _, next := range []bug{b, noBug, noBug} {
					p.start(next)
					s := p.i.Status()
					if next == b && (s.Reflector.LastRelist != reflector.ReasonLeftOut || !s.LeftOutMore ||
						len(s.LeftOut) != entry.MaxLeftOut) {
						t.Errorf("still wrong: relists %v, left out %d, others %v", s.Reflector.Relists, len(s.LeftOut), s.LeftOutMore)
					}
					if next == noBug {
						p.holds(p.srv.State()...)
						p.leftOut()
					}
					p.end()
				}
				lists := p.srv.Lists()
				p.start(noBug)
				p.calm(lists)
				p.end()
			})
		})
	}
}

func TestLeftOutLookUpRefused(t *testing.T) {
	refusals := map[string]error{
		"403": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("from the test")),
		"400": apierrors.NewBadRequest("from the test"),
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(t)
				p.start(badIndex)
				p.srv.Write("a/1", "bad")
				p.waitIdle()
				p.end()
				p.srv.SetFail(func(_ string, o metav1.ListOptions) error {
					if o.FieldSelector != "" {
						return refusal
					}
					return nil
				})
				p.start(noBug)
				p.holds("a/1@101=bad")
				p.leftOut()
				if s := p.i.Status(); s.Reflector.LastRelist != reflector.ReasonLeftOut {
					t.Errorf("relists: %v", s.Reflector.Relists)
				}
				p.end()
			})
		})
	}
}

// TestLeftOutThroughAFlakyLink checks that failed look-ups are retried, without a list, until all objects are restored.
func TestLeftOutThroughAFlakyLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t)
		p.start(badIndex)
		for n := range 10 {
			p.srv.Write(fmt.Sprintf("a/%d", n), "bad")
		}
		p.waitIdle()
		p.end()
		link, failed, lists := rand.New(rand.NewPCG(1, 2)), 0, p.srv.Lists()
		p.srv.SetFail(func(_ string, o metav1.ListOptions) error {
			if o.FieldSelector != "" && link.IntN(3) == 0 {
				failed++
				return apierrors.NewServiceUnavailable("from the test")
			}
			return nil
		})
		p.start(noBug)
		p.waitIdle()
		if failed == 0 {
			t.Error("no look-up has failed")
		}
		p.holds(p.srv.State()...)
		p.leftOut()
		p.calm(lists)
		p.end()
	})
}
