package mirror

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/informer"
)

// namespace is the state of a mirrored namespace of which no objects are mirrored, so that it may not exist.
type namespace struct {
	// missing says that the API server has answered that the namespace does not exist.
	missing bool
	// asked says that the API server has answered whether the namespace exists. A missing namespace is requested again at
	// the time next, and then after pause.
	asked bool
	next  time.Time
	pause time.Duration
}

// watchNamespaces checks, until ctx ends, whether mirrored namespaces without objects exist. It logs when a namespace
// is missing and when it is created. A missing namespace is not an error, because it may be created later.
func (m *mirror) watchNamespaces(ctx context.Context) {
	known := map[string]*namespace{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		for name, empty := range m.emptyNamespaces() {
			ns := known[name]
			switch {
			case ns == nil:
				ns = &namespace{pause: followFirst}
				known[name] = ns
			case !empty:
				// The namespace has objects, so it exists. Once it is empty, the server is asked again, because it may have been
				// deleted.
				ns.asked = false
			}
			was := ns.missing
			switch {
			case !empty:
				ns.missing = false
			case (!ns.asked || ns.missing) && time.Now().After(ns.next):
				m.ask(ctx, name, ns)
			}
			if ns.missing != was {
				m.noteNamespace(name, ns.missing)
			}
		}
	}
}

// emptyNamespaces returns the namespaces of live collections. The value is true if no live collection has an object in
// the namespace.
func (m *mirror) emptyNamespaces() map[string]bool {
	all := map[string]bool{}
	for _, mb := range m.all() {
		st := mb.informer.Status()
		if name := mb.identity.Namespace; name != "" && st.Source == informer.Live {
			others, seen := all[name]
			all[name] = st.Objects == 0 && (others || !seen)
		}
	}
	return all
}

// ask requests a namespace from the API server. A namespace that the user may not read is assumed to exist.
func (m *mirror) ask(ctx context.Context, name string, ns *namespace) {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := m.learner.server.Raw.Get().AbsPath("/api/v1/namespaces", name).Do(limited).Error()
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		ns.asked, ns.missing = true, apierrors.IsNotFound(err)
	}
	ns.next, ns.pause = time.Now().Add(ns.pause), min(2*ns.pause, followMost)
}

// noteNamespace logs whether a namespace is missing or exists, and stores that for the status of its collections.
func (m *mirror) noteNamespace(name string, missing bool) {
	m.mu.Lock()
	if m.missing == nil {
		m.missing = map[string]bool{}
	}
	m.missing[name] = missing
	m.mu.Unlock()
	if missing {
		m.note(fmt.Sprintf("the namespace %q does not exist: nothing of it is mirrored until it is created", name))
		return
	}
	m.note(fmt.Sprintf("the namespace %q exists now", name))
}
