package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
)

// world is a fake informer with its server. It implements audit.Subject.
type world struct {
	auditor *audit.Auditor
	stored  map[string]entry.ObjectRef
	server  []*corev1.Pod // server has the pods in the order of a list
	at      string        // at is the server's resourceVersion
	stream  string
	live    bool
	// arrive, if not nil, applies the events that arrive between an audit's list of the first page and the comparison.
	arrive  func()
	asked   int
	relists []string // relists has the reasons with which the audit has called Relist
	damage  error    // damage is the damage of the store file until its repair
}

func (w *world) Live() bool { return w.live }
func (w *world) LastSyncResourceVersion() string {
	if w.asked++; w.asked == 2 && w.arrive != nil {
		w.arrive()
	}
	return w.stream
}

func (w *world) WaitIdle(context.Context) error              { return nil }
func (w *world) Verify(context.Context, time.Duration) error { return w.damage }

func (w *world) Repaired(_ context.Context, err error) error {
	w.damage = nil
	if !errors.Is(err, entry.ErrDamaged) {
		return err
	}
	return nil
}

func (w *world) Refs(_ context.Context, after string, limit int) (refs []entry.ObjectRef, err error) {
	for _, ref := range w.stored {
		if ref.Key > after {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b entry.ObjectRef) int { return strings.Compare(a.Key, b.Key) })
	return refs[:min(limit, len(refs))], nil
}

func (w *world) Relist(rewound bool) {
	reason := "audit"
	if rewound {
		reason = "rewound"
	}
	w.relists = append(w.relists, reason)
	w.auditor.ListBegun(false)
	var changes []entry.Change
	for key, ref := range w.stored {
		if !slices.ContainsFunc(w.server, func(p *corev1.Pod) bool { return entry.RefOf(p).Key == key }) {
			old := pod(ref.Key, ref.UID, ref.ResourceVersion)
			changes = append(changes, entry.Change{Type: cache.Deleted, Key: key, Old: old, OldRef: ref})
		}
	}
	for _, p := range w.server {
		now := entry.RefOf(p)
		before, held := w.stored[now.Key]
		switch {
		case !held:
			changes = append(changes, entry.Change{Type: cache.Added, Key: now.Key, New: p})
		case before != now:
			old := pod(before.Key, before.UID, before.ResourceVersion)
			changes = append(changes, entry.Change{Type: cache.Updated, Key: now.Key, Old: old, OldRef: before, New: p})
		}
	}
	w.auditor.Changed(changes)
	w.auditor.ListEnded()
}

func pod(key, uid, rv string) *corev1.Pod {
	ns, name, _ := strings.Cut(key, "/")
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(uid), ResourceVersion: rv}}
}

func (w *world) list(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	from := 0
	if o.Continue != "" {
		fmt.Sscan(o.Continue, &from) //nolint:errcheck // an index that list returned
	}
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: w.at}}
	to := min(from+int(o.Limit), len(w.server))
	for _, p := range w.server[from:to] {
		l.Items = append(l.Items, *p)
	}
	if to < len(w.server) {
		l.Continue = fmt.Sprint(to)
	}
	return l, nil
}

// newWorld returns a fake informer whose server and store hold the given number of pods at resourceVersion 1000.
func newWorld(pods int) *world {
	w := &world{stored: map[string]entry.ObjectRef{}, at: "1000", stream: "1000", live: true}
	for n := range pods {
		p := pod(fmt.Sprintf("a/%04d", n), fmt.Sprint(n), "10")
		w.server = append(w.server, p)
		w.stored[entry.RefOf(p).Key] = entry.RefOf(p)
	}
	return w
}

func (w *world) audit(t *testing.T) (audit.Report, error) {
	w.auditor = audit.New(audit.Options{
		Description: "pods", Subject: w, List: w.list,
		Stores: func(runtime.Object) bool { return true }, Clock: clock.RealClock{},
	})
	w.auditor.Start(t.Context())
	return w.auditor.Audit(t.Context())
}

// TestAudit checks that an audit does not report objects whose events arrive during the audit.
func TestAudit(t *testing.T) {
	for name, test := range map[string]struct {
		pods    int
		prepare func(w *world)
		found   []string
		relists []string
		err     error
	}{
		"equal": {pods: 1200, prepare: func(*world) {}},
		"missing": {
			pods:    3,
			prepare: func(w *world) { delete(w.stored, "a/0001") },
			found:   []string{"a/0001"}, relists: []string{"audit"},
		},
		"ghosts on both sides of a page": {
			pods: 1200,
			prepare: func(w *world) {
				for _, key := range []string{"a/0499x", "a/0500x", "z/9"} {
					w.stored[key] = entry.ObjectRef{Key: key, UID: "x", ResourceVersion: "20"}
				}
			},
			found: []string{"a/0499x", "a/0500x", "z/9"}, relists: []string{"audit"},
		},
		"another object": {
			pods:    2,
			prepare: func(w *world) { w.stored["a/0000"] = entry.ObjectRef{Key: "a/0000", UID: "old", ResourceVersion: "5"} },
			found:   []string{"a/0000"}, relists: []string{"audit"},
		},
		"newer here than the page": {
			pods: 2,
			prepare: func(w *world) {
				w.stored["a/0000"] = entry.ObjectRef{Key: "a/0000", UID: "0", ResourceVersion: "1001"}
				w.stored["b/0"] = entry.ObjectRef{Key: "b/0", UID: "new", ResourceVersion: "1002"}
			},
		},
		"under way": {
			pods: 2,
			prepare: func(w *world) {
				was := w.stored["a/0000"]
				w.stored["a/0000"], w.stream = entry.ObjectRef{Key: "a/0000", UID: "0", ResourceVersion: "9"}, "900"
				w.arrive = func() { w.stored["a/0000"], w.stream = was, "1000" }
			},
		},
		"rewound":  {pods: 2, prepare: func(w *world) { w.stream = "1001" }, relists: []string{"rewound"}},
		"unsorted": {pods: 2, prepare: func(w *world) { slices.Reverse(w.server) }, relists: []string{"audit"}},
		"damaged":  {pods: 2, prepare: func(w *world) { w.damage = entry.ErrDamaged }},
		"unread":   {pods: 2, prepare: func(w *world) { w.damage = context.Canceled }, err: context.Canceled},
		"not live": {pods: 2, prepare: func(w *world) { w.live = false }, err: audit.ErrNotLive},
		"opaque":   {pods: 2, prepare: func(w *world) { w.at = "opaque" }, err: audit.ErrNotAuditable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(test.pods)
				test.prepare(w)
				report, err := w.audit(t)
				if !errors.Is(err, test.err) {
					t.Fatalf("%v, want %v", err, test.err)
				}
				if !slices.Equal(report.Keys, test.found) || !slices.Equal(w.relists, test.relists) ||
					report.Listed != (len(test.relists) > 0) {
					t.Errorf("relists %q, %+v; want %q, %q", w.relists, report, test.found, test.relists)
				}
				if n := w.auditor.Incidents()[audit.CauseAudit]; n != min(1, len(test.found)) {
					t.Errorf("%d incidents", n)
				}
				if s := w.auditor.Status(); s.Running || s.Ended.IsZero() || !errors.Is(s.Err, test.err) {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}
