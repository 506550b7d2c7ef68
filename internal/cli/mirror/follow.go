package mirror

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
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
