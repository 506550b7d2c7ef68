package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/input"
)

const (
	// lookEvery is the interval at which a sync checks whether its resources may differ from those of the server. If they
	// may differ, it requests discovery after followFirst, and then with doubled pauses up to followMost.
	lookEvery, followFirst, followMost = time.Second, 2 * time.Second, time.Minute
)

type follower struct {
	server    *cluster.Server
	storePath string
	wanted    []cluster.Wanted
	options   memberOptions
	// offers is the server's last discovery; nil if the server has not responded to this sync.
	offers *cluster.Offers
	// missing is the last log line about group versions that the server cannot describe.
	missing string
	// now returns the current time, with a monotonic clock reading.
	now  func() time.Time
	drop dropper
}

// follow keeps the members of the mirror, which are its collections with their informers, in step with the server until
// ctx ends. It adds members for resources that the server could not describe before or now serves in another version,
// and ends members of replaced versions. It drops stored collections that are no longer mirrored. start runs a new
// member.
func (m *mirror) follow(ctx context.Context, f *follower, start func(*member)) {
	m.noteMissing(f)
	m.dropUnnamed(ctx, f, f.now())
	pause := followFirst
	for next := f.now().Add(pause); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		if !m.outOfStep(f) && !f.dropIsDue() {
			pause = followFirst
			next = f.now().Add(pause)
			continue
		}
		if f.now().Before(next) {
			continue
		}
		if err := m.catchUp(ctx, f, start); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("The server's resources cannot be compared with those that are mirrored", "err", err)
		}
		pause = min(2*pause, followMost)
		next = f.now().Add(pause)
	}
}

// outOfStep reports whether the server has not yet described all of its resources to this sync, or answers 404 to the
// requests of a mirrored collection.
func (m *mirror) outOfStep(f *follower) bool {
	return f.offers == nil || f.offers.Failed != nil || slices.ContainsFunc(m.all(), func(mb *member) bool {
		return apierrors.IsNotFound(mb.informer.Status().Err)
	})
}

func (m *mirror) catchUp(ctx context.Context, f *follower, start func(*member)) error {
	infos, err := m.store.Collections(ctx)
	if err != nil {
		return err
	}
	known := m.Discovery(ctx)
	asking, cancel := context.WithTimeout(ctx, cluster.DefinitionWait)
	defer cancel()
	asked := f.now()
	offers, err := f.server.Discover(asking, known)
	if err != nil {
		f.drop.asked = time.Time{}
		return err
	}
	keepDiscovery(ctx, m.store, known, &offers)
	f.offers = &offers
	m.noteMissing(f)
	r := cluster.NewResolver(f.storePath, infos, offers.Discovery,
		func(context.Context) (cluster.Offers, error) { return offers, nil })
	for _, w := range f.wanted {
		for _, p := range m.unmirrored(ctx, f, r, w) {
			mb, err := newMember(ctx, m.store, p, f.options)
			if err != nil {
				return err
			}
			klog.FromContext(ctx).Info("Mirrored from now on", "resource", p.resource.Full())
			m.mu.Lock()
			m.members = append(slices.Clip(m.members), mb)
			m.mu.Unlock()
			start(mb)
		}
	}
	m.retire(ctx, &offers)
	m.dropUnnamed(ctx, f, asked)
	return nil
}

// unmirrored returns the collections that the request w includes, that the server can list, and that this sync does not
// mirror yet.
func (m *mirror) unmirrored(ctx context.Context, f *follower, r *cluster.Resolver, w cluster.Wanted) (all []planned) {
	served := func(p *member) bool {
		return slices.ContainsFunc(f.offers.All, func(r input.Resource) bool {
			return r.GroupVersionResource == p.identity.GroupVersionResource
		})
	}
	named := func(mb *member) bool { return mb.wanted.Name == w.Name && served(mb) }
	if !w.Everything && slices.ContainsFunc(m.all(), named) {
		return nil // a resource name keeps the group and version that it was resolved to when the sync started
	}
	plan, err := resolve(ctx, f.server, r, []cluster.Wanted{w})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The server does not have what is to be mirrored", "resource", w.Name, "err", err)
	}
	mirrored := func(p planned) bool {
		return slices.ContainsFunc(m.all(), func(mb *member) bool {
			return mb.identity == p.identity ||
				mb.identity.GroupResource() == p.identity.GroupResource() && mb.wanted.Everything == w.Everything && served(mb)
		})
	}
	for i, err := range probeAll(ctx, plan, mirrored) {
		switch p := plan[i]; {
		case mirrored(p):
		case err != nil:
			klog.FromContext(ctx).V(2).Info("Not mirrored yet", "resource", p.resource.String(), "err", err)
		default:
			all = append(all, p)
		}
	}
	return all
}

// retire ends the informers of resource versions that the server has replaced, once informers mirror the new versions.
// The objects stored for the old versions are kept.
func (m *mirror) retire(ctx context.Context, offers *cluster.Offers) {
	for _, mb := range m.all() {
		gvr := mb.identity.GroupVersionResource
		replaced := func(o *member) bool {
			other := entry.Identity(o.identity)
			other.GroupVersionResource.Version = gvr.Version
			return o.identity.Version != gvr.Version && other == mb.identity
		}
		if !offers.Discovery.Retired(gvr) || !slices.ContainsFunc(m.all(), replaced) {
			continue
		}
		klog.FromContext(ctx).Info("Not mirrored any more: the API server serves it in another version, and what is "+
			"stored of this one stays readable by its full name", "resource", mb.resource.Full())
		m.end(mb)
	}
}

func (m *mirror) end(mb *member) {
	m.mu.Lock()
	m.members = slices.DeleteFunc(slices.Clone(m.members), func(o *member) bool { return o == mb })
	m.mu.Unlock()
	mb.stop()
}

// noteMissing logs the group versions that the server cannot describe, in one line. It logs again only when they
// change, and when all group versions are available again.
func (m *mirror) noteMissing(f *follower) {
	line := ""
	if f.offers != nil && f.offers.Failed != nil {
		names, why := f.offers.Missing()
		line = fmt.Sprintf("the API server does not answer for %s (%s): mirrored is everything else; its resources are "+
			"mirrored once it answers, and what is stored of them stays readable", strings.Join(names, ", "), why)
	}
	if line == f.missing {
		return
	}
	f.missing = line
	if line == "" {
		line = "the API server answers for all of its resources again"
	}
	m.note(line)
}

const (
	// lackedFor is how long the API server must not serve a resource before a sync of all resources drops the stored
	// collections of that resource. Meanwhile the sync requests discovery every lackedEvery.
	lackedFor, lackedEvery = 24 * time.Hour, time.Hour
	// lackedDocument names the document in the store with the time for which the server has not served a resource: JSON of
	// durations by resource.group. Only time during which a sync ran and the server described the API group counts, so a
	// timestamp would not suffice.
	lackedDocument = "lacked"
)

// dropper is the state of dropping stored collections that a sync no longer mirrors.
type dropper struct {
	// keep disables dropping: all stored collections are kept.
	keep bool
	// asked is when the server last described its resources. It is zero if the last request failed or the next request is
	// due soon.
	asked time.Time
	// waiting says that the server does not serve a stored resource, or that an open collection could not be dropped.
	waiting bool
}

func (f *follower) dropIsDue() bool {
	return f.drop.waiting && f.now().Sub(f.drop.asked) >= lackedEvery
}

// dropUnnamed drops the stored collections that the current arguments or configuration do not name. A sync of all
// resources also drops collections of resources that the server has not served for lackedFor. f.offers is the discovery
// that the server returned at the time asked. A later call drops collections that are still open.
func (m *mirror) dropUnnamed(ctx context.Context, f *follower, asked time.Time) {
	if f.drop.keep || f.offers == nil {
		return
	}
	infos, err := m.store.Collections(ctx)
	if err != nil {
		return // the informers report errors of the store
	}
	r := cluster.NewResolver(f.storePath, infos, f.offers.Discovery,
		func(context.Context) (cluster.Offers, error) { return *f.offers, nil })
	everything := slices.ContainsFunc(f.wanted, func(w cluster.Wanted) bool { return w.Everything })
	var lacked map[string]time.Duration
	if everything {
		lacked = m.countLacked(ctx, f, asked, infos)
	}
	f.drop.waiting = len(lacked) > 0
	for _, info := range infos {
		var named, covered bool
		for _, w := range f.wanted {
			of := r.Covers(ctx, w, info)
			named, covered = named || of && !w.Everything, covered || of
		}
		why := ""
		switch {
		case len(info.Resource.RequestedAs) > 0 && !covered:
			why = "it was named before, and is not now"
		case everything && !named && lacked[info.Identity.GroupResource().String()] >= lackedFor:
			why = "the API server has not had the resource for a day"
		default:
			continue
		}
		m.drop(ctx, f, info, why)
	}
}

// drop drops a stored collection. If an informer mirrors the collection, drop only ends the informer; a later call
// drops the collection, once the informer has closed it.
func (m *mirror) drop(ctx context.Context, f *follower, info entry.Info, why string) {
	for _, mb := range m.all() {
		if mb.identity == info.Identity {
			m.end(mb)
			// Discovery and the drop are due again soon, because the collection is still open.
			f.drop.waiting, f.drop.asked = true, time.Time{}
			return
		}
	}
	switch err := m.store.Drop(ctx, info.Identity); {
	case err == nil:
		klog.FromContext(ctx).Info("Dropped from the store", "collection", info.Identity.String(), "objects", info.Objects,
			"why", why)
	case ctx.Err() == nil:
		f.drop.waiting = true
		klog.FromContext(ctx).V(2).Info("A collection is not dropped from the store yet", "err", err)
	}
}

// countLacked updates the stored durations for which the server has not served the resources of collections, and
// returns the durations by resource.group. The time between two discovery responses counts if the resource is missing
// from both.
func (m *mirror) countLacked(
	ctx context.Context, f *follower, asked time.Time, infos []entry.Info,
) map[string]time.Duration {
	var before map[string]time.Duration
	data, err := m.store.Document(ctx, lackedDocument)
	if err == nil {
		// If the stored durations are unreadable, they restart at zero.
		_ = json.Unmarshal(data, &before)
	}
	passed := time.Duration(0)
	if !f.drop.asked.IsZero() {
		passed = asked.Sub(f.drop.asked)
	}
	f.drop.asked = asked
	lacked := map[string]time.Duration{}
	for _, info := range infos {
		of := info.Identity.GroupResource()
		if !f.offers.Lacks(of) {
			continue
		}
		name := of.String()
		if so, ok := before[name]; ok {
			lacked[name] = so + passed
		} else {
			lacked[name] = 0
		}
	}
	if len(lacked) == 0 {
		err = m.store.DeleteDocument(ctx, lackedDocument)
	} else if data, err = json.Marshal(lacked); err == nil {
		err = m.store.PutDocument(ctx, lackedDocument, data)
	}
	if err != nil { // if the disk is full, the durations of the last successful write count after a restart
		klog.FromContext(ctx).V(2).Info("How long the API server has lacked resources is not stored", "err", err)
	}
	return lacked
}

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
