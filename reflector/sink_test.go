package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

var errSinkClosed = errors.New("the sink is closed")

// memory is a Sink that keeps the objects in memory, and collects violations of the contract of Sink by the reflector.
type memory struct {
	mu          sync.Mutex
	rv          string
	objects     map[string]*corev1.ConfigMap
	replace     map[string]*corev1.ConfigMap
	touched     map[string]bool
	log         []string
	synced      int
	broken      []string
	closed      bool
	cp          *reflector.Checkpoint
	relist      reflector.Reason
	checkpoints int
	onPage      func()
	onSynced    func(rv string)
	noNewest    bool
	// contradicted is Reflector.Contradicted; nil if the test does not expect a call.
	contradicted func() bool
}

func newMemory() *memory { return &memory{objects: map[string]*corev1.ConfigMap{}} }

func (m *memory) Checkpoint(context.Context) (reflector.Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkpoints++
	if m.closed {
		return reflector.Checkpoint{}, errSinkClosed
	}
	if m.cp != nil {
		return *m.cp, nil
	}
	cp := reflector.Checkpoint{ResourceVersion: m.rv, Relist: m.relist}
	if m.noNewest {
		return cp, nil
	}
	for k, o := range m.objects {
		cp.Newest = append(cp.Newest, entry.ObjectRef{Key: k, UID: string(o.UID), ResourceVersion: o.ResourceVersion})
	}
	return cp, nil
}

func (m *memory) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// move checks that the delivered resourceVersion never decreases.
func (m *memory) move(rv string) {
	if rv == "" {
		return
	}
	if !entry.ComparableRV(rv) {
		m.broken = append(m.broken, "delivered resourceVersion "+rv)
	}
	if m.rv != "" && below(rv, m.rv) {
		m.broken = append(m.broken, "went back from "+m.rv+" to "+rv)
	}
	m.rv = rv
}

func (m *memory) Event(_ context.Context, t watch.EventType, obj runtime.Object, rv string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errSinkClosed
	}
	cm := obj.(*corev1.ConfigMap)
	key := cache.MetaObjectToName(cm).String()
	m.note("%s %s %s", t, key, rv)
	into := m.objects
	if m.replace != nil {
		into = m.replace
		m.touched[key] = true
	} else {
		m.hold(t, key, cm, rv)
		m.move(rv)
	}
	if t == watch.Deleted {
		delete(into, key)
	} else {
		into[key] = cm
	}
	return nil
}

// hold calls contradicted if an event cannot follow the stored objects.
func (m *memory) hold(t watch.EventType, key string, cm *corev1.ConfigMap, rv string) {
	held := m.objects[key]
	fits := held == nil && t == watch.Added || held != nil && held.UID == cm.UID
	if m.contradicted != nil && !fits && rv != "" && below(m.rv, cm.ResourceVersion) {
		m.contradicted()
	}
}

func (m *memory) Bookmark(_ context.Context, rv string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("BOOKMARK %s", rv)
	if m.replace != nil {
		m.broken = append(m.broken, "bookmark inside a Replace")
	}
	m.move(rv)
	return nil
}

func (m *memory) BeginReplace(_ context.Context, reason reflector.Reason) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("BEGIN %s", reason)
	if m.closed {
		return errSinkClosed
	}
	if m.replace != nil {
		m.broken = append(m.broken, "BeginReplace twice")
	}
	m.replace, m.touched = map[string]*corev1.ConfigMap{}, map[string]bool{}
	return nil
}

func (m *memory) Page(_ context.Context, items []runtime.Object) error {
	if m.onPage != nil {
		m.onPage()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("PAGE %d", len(items))
	if m.replace == nil {
		m.broken = append(m.broken, "page outside a Replace")
		return nil
	}
	for _, o := range items {
		cm := o.(*corev1.ConfigMap)
		if key := cache.MetaObjectToName(cm).String(); !m.touched[key] {
			m.replace[key] = cm
		}
	}
	return nil
}

func (m *memory) Known(_ context.Context, refs []entry.ObjectRef) (missing []entry.ObjectRef, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ref := range refs {
		held := m.objects[ref.Key]
		switch {
		case held == nil || string(held.UID) != ref.UID || held.ResourceVersion != ref.ResourceVersion:
			missing = append(missing, ref)
		case !m.touched[ref.Key]:
			m.replace[ref.Key] = held
		}
	}
	m.note("KNOWN %d of %d", len(refs)-len(missing), len(refs))
	return missing, nil
}

func (m *memory) EndReplace(_ context.Context, rv string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("END %s", rv)
	if m.replace == nil {
		m.broken = append(m.broken, "EndReplace without BeginReplace")
	}
	m.objects, m.replace = m.replace, nil
	m.rv, m.relist = rv, ""
	return nil
}

func (m *memory) AbortReplace(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("ABORT")
	if m.replace == nil {
		m.broken = append(m.broken, "AbortReplace without BeginReplace")
	}
	m.replace = nil
	return nil
}

func (m *memory) MustList(_ context.Context, reason reflector.Reason) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("MUSTLIST %s", reason)
	if m.replace != nil {
		m.broken = append(m.broken, "MustList inside a Replace")
	}
	m.relist = reason
	return nil
}

func (m *memory) Synced(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note("SYNCED")
	m.synced++
	if m.onSynced != nil {
		m.onSynced(m.rv)
	}
	return nil
}

func (m *memory) at() (string, map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := map[string]string{}
	for k, v := range m.objects {
		s[k] = digest(v)
	}
	return m.rv, s
}

func (m *memory) state() map[string]string {
	_, s := m.at()
	return s
}

func (m *memory) lines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.log...)
}

func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log, m.synced = nil, 0
}

func (m *memory) syncs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

func (m *memory) complaints() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.broken...)
}

func (m *memory) equal(s *server) bool { return maps.Equal(m.state(), s.state()) }
