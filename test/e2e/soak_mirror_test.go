package e2e

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// mirror is an event handler that keeps the received state: the resourceVersion of each object, by key.
type mirror struct {
	mu       sync.Mutex
	versions map[string]string // mu guards versions and updates
	updates  int
	leak     *leak
}

var _ cache.ResourceEventHandler = &mirror{}

func (m *mirror) OnAdd(obj any, _ bool) { m.set(obj, versionOf(obj)) }

func (m *mirror) OnUpdate(_, obj any) {
	m.set(obj, versionOf(obj))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updates++
	m.leak.update(m.updates, obj)
}

func (m *mirror) OnDelete(obj any) { m.set(obj, "") }

func (m *mirror) set(obj any, version string) {
	key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versions[key] = version; version == "" {
		delete(m.versions, key)
	}
}

func (m *mirror) version(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versions[key]
}

func (m *mirror) updateCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.updates
}

func (m *mirror) diff(want map[string]string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, version := range want {
		if m.versions[key] != version {
			return fmt.Sprintf("%s was told with RV %q, want %q", key, m.versions[key], version)
		}
	}
	if len(m.versions) != len(want) {
		return fmt.Sprintf("%d objects were told, want %d", len(m.versions), len(want))
	}
	return ""
}

func versionOf(obj any) string {
	a, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return a.GetResourceVersion()
}

// leak describes a deliberate memory leak, with which the tests check that a leak is detected.
type leak struct {
	// every is the number of updates after which the handler keeps one object for ever; 0 keeps none.
	every int
	kept  []any
	// goroutines makes each restart leak a goroutine, which ends when the channel is closed. nil means no leak.
	goroutines chan struct{}
}

func (l *leak) update(n int, obj any) {
	if l.every > 0 && n%l.every == 0 {
		l.kept = append(l.kept, obj)
	}
}

func (l *leak) restart() {
	if l.goroutines != nil {
		go func() { <-l.goroutines }()
	}
}
