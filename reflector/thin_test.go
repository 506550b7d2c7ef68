package reflector_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// thin is a ListerWatcher behind a link of 56 kbit/s: an answer or an event arrives when its last byte has arrived.
type thin struct{ *server }

const perMillisecond = 7

func (l thin) carry(ctx context.Context, size int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(size/perMillisecond) * time.Millisecond):
		return nil
	}
}

func (l thin) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := l.server.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	return list, l.carry(ctx, list.(*corev1.ConfigMapList).Size())
}

func (l thin) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := l.server.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	thinned := &thinWatch{Interface: w, result: make(chan watch.Event)}
	go thinned.run(ctx, l)
	return thinned, nil
}

// thinWatch is a watch over a link of 56 kbit/s. An event whose transfer has begun arrives even after the watch's
// time-out, as with HTTP.
type thinWatch struct {
	watch.Interface
	result chan watch.Event
}

func (w *thinWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *thinWatch) run(ctx context.Context, l thin) {
	defer close(w.result)
	for ev := range w.Interface.ResultChan() {
		size := 0
		if cm, ok := ev.Object.(*corev1.ConfigMap); ok {
			size = cm.Size()
		}
		if l.carry(ctx, size) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case w.result <- ev:
		}
	}
}

func (g *rig) fillLarge(n, size int) {
	body := strings.Repeat("x", size)
	for i := range n {
		g.s.put(fmt.Sprintf("a/%02d", i), body)
	}
}

// large fails the test unless the Sink has exactly the server's objects. Its message omits their contents.
func (g *rig) large() {
	g.t.Helper()
	if !g.m.equal(g.s) {
		g.t.Errorf("the sink does not hold what the server has; status %+v", g.r.Status())
	}
}

// TestThinList checks that a list ends although two objects of 400 KB take longer than a request's time-out over the
// link. It takes little more time than the transfer of its bytes.
func TestThinList(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fillLarge(20, 400<<10)
		g.startOn(thin{g.s}, reflector.Options{})
		g.sleep(5*requestTimeout + 10*2*time.Minute + 2*time.Minute)
		g.large()
		if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 0 {
			t.Errorf("sink calls %q", l)
		}
		// Four page requests find the page size, and a fifth the time-out.
		if got, want := g.limits()[:6], []int64{500, 250, 62, 7, 2, 2}; !slices.Equal(got, want) || len(g.errs) != 5 ||
			len(g.limits()) != 15 {
			t.Errorf("pages of %d were asked for, want %d first, and 15; errors %v", g.limits(), want, g.errs)
		}
		g.stop()
	})
}

func TestThinListOfSmallerObjects(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fillLarge(80, 100<<10)
		g.startOn(thin{g.s}, reflector.Options{})
		g.sleep(time.Hour)
		g.large()
		if got, want := g.limits()[:6], []int64{500, 250, 62, 7, 2, 2}; !slices.Equal(got, want) || len(g.errs) != 4 {
			t.Errorf("pages of %d were asked for, want %d first; errors %v", g.limits(), want, g.errs)
		}
		g.stop()
	})
}

// hasty is a link of 56 kbit/s to a server that ends every answer after a minute, as API servers do.
type hasty struct{ thin }

func (l hasty) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	list, err := l.thin.ListWithContext(limited, o)
	if err != nil && ctx.Err() == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return list, err
}

// TestThinListCutByTheServer checks that two large objects are fetched one by one if the server ends its answers before
// both have arrived. Smaller objects are listed in pages again.
func TestThinListCutByTheServer(t *testing.T) {
	const large, before = 25, 10
	for name, small := range map[string]int{"at once": 0, "in the middle": before} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(small)
				for i := range large {
					g.s.put(fmt.Sprintf("b/%02d", i), strings.Repeat("x", 300<<10))
				}
				for i := range 100 {
					g.s.put(fmt.Sprintf("c/%02d", i), "1")
				}
				g.startOn(hasty{thin{g.s}}, reflector.Options{PageSize: 20, ListMetadata: (&metadata{s: g.s}).list})
				g.sleep(time.Hour)
				g.large()
				lines, st := g.m.lines(), g.r.Status()
				if count(lines, "BEGIN") != 1 || count(lines, "ABORT") != 0 || count(lines, "PAGE 20") == 0 {
					t.Errorf("told %q", lines)
				}
				if st.Fetches < large || st.Fetches > large+4 || st.State != reflector.Watch || st.Err != nil {
					t.Errorf("status %+v", st)
				}
				g.s.put("b/03", "2")
				g.sleep(time.Minute)
				g.large()
				g.stop()
			})
		})
	}
}

// TestThinListOfWhatDoesNotCome checks that an object that takes longer than the server allows for an answer is
// requested until it arrives, and that the Status shows that.
func TestThinListOfWhatDoesNotCome(t *testing.T) {
	for _, byMetadata := range []bool{false, true} {
		t.Run(fmt.Sprintf("metadata %v", byMetadata), func(t *testing.T) {
			bubble(t, func(g *rig) {
				o := reflector.Options{}
				if byMetadata {
					o.ListMetadata = (&metadata{s: g.s}).list
				}
				g.fillLarge(3, 600<<10)
				g.startOn(hasty{thin{g.s}}, o)
				g.sleep(time.Hour)
				if st := g.r.Status(); st.Err == nil || st.Live || len(g.errs) < 30 {
					t.Errorf("%d errors, status %+v", len(g.errs), st)
				}
				for i := range 3 {
					g.s.put(fmt.Sprintf("a/%02d", i), "1")
				}
				g.sleep(10 * time.Minute)
				g.large()
				g.stop()
			})
		})
	}
}

// TestThinWatch checks that the server sends an event twice, but not endlessly, if its transfer takes longer than a
// watch may be silent. The look-up of its object takes longer than a request's time-out.
func TestThinWatch(t *testing.T) {
	for _, drained := range []bool{true, false} {
		t.Run(fmt.Sprintf("drained %v", drained), func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(10)
				large := func() { g.s.put("a/05", strings.Repeat("x", 1200<<10)) }
				if g.startOn(thin{g.s}, reflector.Options{}); drained {
					g.sleep(time.Minute)
					large()
				} else {
					g.sleep(time.Minute)
					g.stop()
					g.s.requests = nil
					large()
					g.startOn(thin{g.s}, reflector.Options{})
				}
				g.sleep(15 * time.Minute)
				g.large()
				if l := g.m.lines(); count(l, "MODIFIED a/05") != 1 || count(l, "BEGIN") != 1 {
					t.Errorf("sink calls %q", l)
				}
				g.s.put("a/06", "2")
				g.sleep(4 * time.Minute) // the look-ups after a reconnect request the large object
				g.large()
				if st := g.r.Status(); st.Err != nil || len(st.Relists) != 0 || st.Watches > 6 {
					t.Errorf("status %+v, errors %v", st, g.errs)
				}
				g.stop()
			})
		})
	}
}

// TestThinFold checks an event during a list whose transfer takes longer than a watch may be silent.
func TestThinFold(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(30)
		g.atPage(3, func() error {
			time.Sleep(100 * time.Millisecond)
			g.s.put("a/05", strings.Repeat("x", 1200<<10))
			g.s.mu.Lock()
			// The last page is of a newer resourceVersion, which the watch has to reach.
			g.s.snapshots = map[int][]*corev1.ConfigMap{}
			g.s.mu.Unlock()
			return nil
		})
		g.startOn(thin{g.s}, reflector.Options{PageSize: 10})
		g.sleep(20 * time.Minute)
		g.large()
		if l := g.m.lines(); count(l, "MODIFIED a/05") != 1 || count(l, "BEGIN") != 1 || count(l, "END") != 1 {
			t.Errorf("sink calls %q", l)
		}
		g.stop()
	})
}

// TestThinResume checks a resume whose probe and look-ups take longer than a request's time-out.
func TestThinResume(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fillLarge(3, 1<<20)
		g.start(reflector.Options{})
		g.stop()
		g.s.requests = nil
		g.startOn(thin{g.s}, reflector.Options{})
		g.sleep(30 * time.Minute)
		if st := g.r.Status(); st.State != reflector.Watch || st.Lists != 0 || st.Resumes == 0 || !st.Live ||
			len(g.errs) != 1 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

// TestThinResumeCutByTheServer checks that the rewind check is turned off, and shown in the Status, if the server ends
// the answers to the probe and the look-ups.
func TestThinResumeCutByTheServer(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fillLarge(3, 600<<10)
		g.start(reflector.Options{})
		g.stop()
		g.s.requests = nil
		g.startOn(hasty{thin{g.s}}, reflector.Options{})
		g.sleep(6 * time.Minute)
		if st := g.r.Status(); st.State != reflector.Watch || st.Err != nil || st.Lists != 0 || st.Resumes != 1 ||
			st.Lookups != 1 || st.NoLookups == "" || len(g.errs) != 0 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.s.put("a/00", "2")
		g.sleep(time.Second)
		g.large()
		g.stop()
	})
}

// TestThinResumeByMetadata checks that a resume requests only the metadata of single objects: an object that is too
// large for the link does not delay the resume.
func TestThinResumeByMetadata(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fillLarge(3, 600<<10)
		o := reflector.Options{ExpectedType: &corev1.ConfigMap{}, ListMetadata: (&metadata{s: g.s}).list}
		g.start(o)
		g.stop()
		g.s.requests = nil
		g.startOn(hasty{thin{g.s}}, o)
		g.sleep(time.Minute)
		if st := g.r.Status(); st.State != reflector.Watch || st.Lists != 0 || st.Resumes != 1 || st.Lookups != 3 ||
			st.NoLookups != "" || len(g.errs) != 0 {
			t.Errorf("status %+v, errors %v", st, g.errs)
		}
		g.stop()
	})
}

// TestThinListByMetadata: 50 MB of objects, of which 1 % has changed, are listed in minutes over 56 kbit/s.
func TestThinListByMetadata(t *testing.T) {
	bubble(t, func(g *rig) {
		meta := &metadata{s: g.s}
		o := reflector.Options{ListMetadata: func(ctx context.Context,
			o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			list, err := meta.list(ctx, o)
			if err != nil {
				return nil, err
			}
			return list, thin{g.s}.carry(ctx, list.Size())
		}}
		g.fillLarge(500, 100<<10)
		g.start(o)
		g.stop()
		g.m.forget()
		g.s.requests = nil
		body := strings.Repeat("y", 100<<10)
		for _, n := range []int{7, 110, 111, 350, 499} {
			g.s.put(fmt.Sprintf("a/%02d", n), body)
		}
		g.s.compact()
		g.startOn(thin{g.s}, o)
		g.sleep(7 * time.Minute)
		g.large()
		g.wantWhole(5, 5)
		g.stop()
	})
}
