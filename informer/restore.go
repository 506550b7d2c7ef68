package informer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/informer/internal/delivery"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
)

// detectsMutations is true if client-go's mutation detector is enabled. The detector then gets every stored object.
var detectsMutations = func() bool {
	on, err := strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))
	return err == nil && on
}()

// restore queues the stored objects for the handlers that were registered before the start: the first page before the
// first delta is processed, later pages afterwards. It ignores the incomplete state of an interrupted cold start, which
// the first list replaces. If the store cannot be read, it retries. It returns an error only if ctx has ended or the
// store is closed.
func (p *loop) restore(ctx context.Context) error {
	var info entry.Info
	err := p.readRetry(ctx, func() (err error) {
		info, err = p.store.Info(ctx)
		return err
	})
	if leftOutUndecodable(info) {
		p.health.distrusts.Store(true)
	}
	if err == nil && info.Complete {
		klog.FromContext(ctx).Info("Serving objects from disk", "type", p.o.ObjectDescription, "representation",
			p.o.Identity.Representation,
			"objects", info.Objects, "asOf", info.LastContact, "resourceVersion", info.ResourceVersion)
		err = p.replayStored(ctx)
	}
	p.replay = nil
	if err == nil && info.Complete && p.o.SyncPolicy == Disk {
		p.sync.complete()
	}
	return err
}

// replayStored queues the first page of the stored objects for each handler, and requests a list for unreadable ones.
func (p *loop) replayStored(ctx context.Context) error {
	var lost []delivery.Unreadable
	for _, l := range p.replay {
		l.StartReplay(true, true)
	}
	for _, l := range p.replay {
		err := p.readRetry(ctx, func() error {
			bad, err := p.distribution.queuePage(ctx, l)
			p.distribution.report(ctx, bad)
			lost = append(lost, bad...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if detectsMutations {
		if err := p.readRetry(ctx, func() error { return p.detectStored(ctx) }); err != nil {
			return err
		}
	}
	if len(lost) > 0 {
		return p.replaceUnreadable(ctx, lost)
	}
	return nil
}

// detectStored passes the stored objects to the mutation detector, because readers may modify them too.
func (p *loop) detectStored(ctx context.Context) error {
	_, err := p.distribution.each(ctx, "", func(_ string, obj runtime.Object) error {
		p.detector.AddObject(obj)
		return nil
	})
	return err
}

// readRetry repeats a read of the store until it succeeds, as persist repeats a write.
func (p *loop) readRetry(ctx context.Context, read func() error) error {
	for delay := storeBackoff(); ; {
		err := read()
		if err == nil {
			p.healthy(ctx)
			return nil
		}
		if ctx.Err() != nil || p.endsRun(err) {
			return err
		}
		p.unhealthy(ctx, err)
		if err := base.Sleep(ctx, p.clock, delay.Step()); err != nil {
			return err
		}
	}
}

// replaceUnreadable requests a list that replaces damaged records, and otherwise one that rewrites every stored object.
func (p *loop) replaceUnreadable(ctx context.Context, lost []delivery.Unreadable) error {
	damaged := func(u delivery.Unreadable) bool { return errors.Is(u.Err, entry.ErrDamaged) }
	if slices.ContainsFunc(lost, damaged) && p.file != nil {
		return p.look(ctx)
	}
	p.listUnreadable()
	return nil
}

// listUnreadable requests a list that rewrites every stored object, because some are unreadable. From then on every
// received object is decoded before it is stored, and undecodable ones are left out.
func (p *loop) listUnreadable() {
	p.health.distrusts.Store(true)
	p.health.setRewriting(reflector.ReasonUnreadable)
	p.markMissing()
	p.relist(reflector.ReasonUnreadable)
}

// SeedStatus says which seed this run began with, or why it had to list.
type SeedStatus struct {
	// Source names the last seed, without credentials. Taken is when the seed was taken, and ResourceVersion where the
	// watch resumes. They are empty if no seed was usable.
	Source          string
	Taken           time.Time
	ResourceVersion string
	// Err is why everything had to be listed; nil if the seed was applied.
	Err error
}

// seeds opens the seed of Options.Seed, which replaces the first list, and keeps the outcome for Status.Seed.
type seeds struct {
	i     *sharedInformer
	attrs *attributes.Tracker // attrs is set before the run; only the reflector's goroutine uses it

	mu     sync.Mutex
	status *SeedStatus // status is nil before the seed was requested; mu guards it
}

// errNoSent is the error for an Options.Codec that is none of package codec: a seed's objects cannot be made with it.
var errNoSent = errors.New("seeds are not converted for Options.Codec, which is none of package codec")

func (s *seeds) open(ctx context.Context, after time.Time) (*seed.Seed, error) {
	cluster, err := s.attrs.SeedCluster(s.i.o.SeedCluster)
	if errors.Is(err, attributes.ErrUnverified) {
		return nil, reflector.ErrSeedLater
	}
	sent := codec.NewSent(s.i.o.Codec, s.i.example, s.i.Identity().LabelSelector != "")
	if err == nil && sent == nil {
		err = errNoSent
	}
	var sd *seed.Seed
	if err == nil {
		sd, err = s.i.o.Seed.Seed(ctx, seed.Request{Identity: s.i.Identity(), Cluster: cluster, Make: sent,
			After: after})
	}
	if err == nil && !entry.ComparableRV(sd.ResourceVersion) {
		err = errors.Join(fmt.Errorf("the seed %s cannot be resumed from its resourceVersion %q", sd.Source,
			sd.ResourceVersion), sd.Close())
	}
	if err != nil {
		return nil, err
	}
	s.attrs.Seeding(sd.OpenAPI, sd.Wire)
	read := sd.Objects
	sd.Objects = func(ctx context.Context, fn func(*entry.Undecoded) error) error {
		err := read(ctx, fn)
		if err == nil {
			s.i.lastContact.CompareAndSwap(0, sd.Taken.UnixNano()) // lastContact is 0 before the first contact with the server
		}
		return err
	}
	s.note(SeedStatus{Source: sd.Source, Taken: sd.Taken, ResourceVersion: sd.ResourceVersion})
	return sd, nil
}

func (s *seeds) note(st SeedStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = &st
}

// get returns the value for Status.Seed. err is the reflector's reason why no seed could be used, or nil.
func (s *seeds) get(err error) *SeedStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.status == nil:
		return &SeedStatus{Err: err}
	case s.status == nil:
		return nil
	}
	st := *s.status
	st.Err = err
	return &st
}
