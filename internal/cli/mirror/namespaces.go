package mirror

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/informer"
)

// namespace is what is known of a namespace of which members have no objects.
type namespace struct {
	// missing: the API server does not have it.
	missing bool
	// asked: the API server has answered. One that is missing is asked for again after pause, at next.
	asked bool
	next  time.Time
	pause time.Duration
}

// watchNamespaces finds out, until ctx ends, whether the namespaces exist of which nothing is mirrored though the
// members are live, and says of one that does not, and that it does. That is no failure: the namespace may be created
// later.
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
			case !empty: // once it is empty again it may have been deleted
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
				m.tellNamespace(name, ns.missing)
			}
		}
	}
}

// emptyNamespaces returns the namespaces of members that are live, and whether all of them have no objects.
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

// ask asks the server for a namespace. One that may not be read is taken to exist.
func (m *mirror) ask(ctx context.Context, name string, ns *namespace) {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := m.learner.server.Raw.Get().AbsPath("/api/v1/namespaces", name).Do(limited).Error()
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		ns.asked, ns.missing = true, apierrors.IsNotFound(err)
	}
	ns.next, ns.pause = time.Now().Add(ns.pause), min(2*ns.pause, followMost)
}

// tellNamespace says that a namespace is missing, or is there, and has the status of its members say so.
func (m *mirror) tellNamespace(name string, missing bool) {
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
