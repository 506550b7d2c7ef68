package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
)

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
