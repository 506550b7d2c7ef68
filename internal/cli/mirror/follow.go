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
	// lookEvery is how often a sync looks whether its resources are out of step with the server's. It asks the server
	// only then: after followFirst, and twice as late after each time, but after followMost.
	lookEvery, followFirst, followMost = time.Second, 2 * time.Second, time.Minute
)

// follower keeps the members in step with the resources that the server has.
type follower struct {
	server    *cluster.Server
	storePath string
	wanted    []cluster.Wanted
	options   memberOptions
	// offers is the server's last answer; nil if there was none in this run.
	offers *cluster.Offers
	// missing is the last line about group-versions that are missing.
	missing string
	// now returns the time, with a monotonic reading.
	now  func() time.Time
	drop dropper
}

// follow keeps the members in step until ctx ends: it adds members for resources that the server could not describe
// before, or has in another version now, and ends those of versions that it has replaced. It drops collections that are
// mirrored no more. start runs a member.
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

// outOfStep reports whether the server has not described all of its resources in this run, or does not find a member's.
func (m *mirror) outOfStep(f *follower) bool {
	return f.offers == nil || f.offers.Failed != nil || slices.ContainsFunc(m.all(), func(mb *member) bool {
		return apierrors.IsNotFound(mb.informer.Status().Err)
	})
}

// catchUp asks the server for its resources and brings the members into step.
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
		for _, p := range m.lacking(ctx, f, r, w) {
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

// lacking returns what w wants and no member mirrors, and the server lists.
func (m *mirror) lacking(ctx context.Context, f *follower, r *cluster.Resolver, w cluster.Wanted) (all []planned) {
	served := func(p *member) bool {
		return slices.ContainsFunc(f.offers.All, func(r input.Resource) bool {
			return r.GroupVersionResource == p.identity.GroupVersionResource
		})
	}
	named := func(mb *member) bool { return mb.wanted.Name == w.Name && served(mb) }
	if !w.Everything && slices.ContainsFunc(m.all(), named) {
		return nil // its name goes on to mean what it meant at the start
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
	for i, err := range askAll(ctx, plan, mirrored) {
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

// retire ends the members of versions that the server has replaced, once the new version is mirrored. What is stored of
// them stays.
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

// end ends a member.
func (m *mirror) end(mb *member) {
	m.mu.Lock()
	m.members = slices.DeleteFunc(slices.Clone(m.members), func(o *member) bool { return o == mb })
	m.mu.Unlock()
	mb.stop()
}

// noteMissing says in one line which group-versions the server cannot describe, if that is news, or that it can.
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
