package reflector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/seed"
)

// ErrSeedLater is returned by Options.Seed if it can choose a seed only after the server was verified. The reflector
// then calls Options.Seed again.
var ErrSeedLater = errors.New("what the seed has to be is not known yet")

// seedSpread is the maximum of the random wait before a newer seed is requested. All members of a fleet that has
// started from one seed find out at the same time that the seed is too old.
const seedSpread = 10 * time.Second

// maxSeeds is how many seeds a run requests: a second seed only if the first was too old.
const maxSeeds = 2

type seeding struct {
	// asked is the number of seeds that Options.Seed has returned; maxSeeds after an error.
	asked int
	// taken is when the Sink's seed was taken; zero without a seed.
	taken time.Time
}

// seed applies a seed (Options.Seed) in place of the due list. The outcome is empty if there is no seed.
func (s *session) seed(ctx context.Context, reason Reason) outcome {
	again := reason == ReasonExpired && !s.seeding.taken.IsZero() && !s.served
	if s.o.Seed == nil || s.seeding.asked == maxSeeds || reason != ReasonCold && !again {
		return outcome{}
	}
	s.conn.connected()
	if again && base.Sleep(ctx, s.o.Clock, rand.N(seedSpread)) != nil {
		return outcome{Kind: stop}
	}
	defer s.conn.listing.releaseIfSlow()()
	sd, err := s.o.Seed(ctx, s.seeding.taken)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = sd.Close()
		}
		return outcome{Kind: stop}
	case errors.Is(err, ErrSeedLater):
		return outcome{}
	case err != nil:
		s.noSeed(ctx, err)
		return outcome{}
	}
	s.seeding.asked++
	o := s.replaceFromSeed(ctx, sd, reason)
	if err := sd.Close(); err != nil {
		klog.FromContext(ctx).V(2).Info("A seed was not closed", "seed", sd.Source, "err", err)
	}
	return o
}

func (s *session) noSeed(ctx context.Context, err error) {
	klog.FromContext(ctx).Error(err, "There is no seed to begin with; listing")
	s.seeding.asked = maxSeeds
	s.r.board.update(func(st *Status) { st.SeedErr = err })
}

// replaceFromSeed delivers a seed to the Sink as a list. The outcome is empty if the seed cannot be read.
func (s *session) replaceFromSeed(ctx context.Context, sd *seed.Seed, reason Reason) outcome {
	klog.FromContext(ctx).V(2).Info("Beginning with a seed", "seed", sd.Source, "taken", sd.Taken, "resourceVersion",
		sd.ResourceVersion)
	l := newList(s, reason)
	l.before, l.begun = s.gate.dropCount, true
	if err := s.sink.BeginReplace(ctx, reason); err != nil {
		return s.sinkClosed(err)
	}
	var sinkErr error
	var page []runtime.Object
	bytes := 0
	flush := func() error {
		sinkErr = l.deliver(ctx, page)
		page, bytes = nil, 0
		return sinkErr
	}
	err := sd.Objects(ctx, func(obj *entry.Undecoded) error {
		page, bytes = append(page, obj), bytes+obj.Size()
		if len(page) < int(s.o.PageSize) && bytes < seedPage {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = s.gate.Judge(s.gate.Since(l.before), l.delivered)
	}
	switch {
	case ctx.Err() != nil:
		return l.abort(ctx, outcome{Kind: stop})
	case sinkErr != nil:
		return s.sinkClosed(sinkErr)
	case err != nil:
		s.noSeed(ctx, fmt.Errorf("the seed %s cannot be used: %w", sd.Source, err))
		return l.abort(ctx, outcome{})
	}
	if err := s.sink.EndReplace(ctx, sd.ResourceVersion); err != nil {
		return s.sinkClosed(err)
	}
	s.seeding.taken, s.resumes = sd.Taken, sd.ResourceVersion
	s.moveTo(progressAt(sd.ResourceVersion))
	s.newest, s.guards.awaited, s.guards.target = l.newest.Result(), nil, ""
	s.watching.end, s.announced, s.guards.pending = lost, false, false
	return outcome{Kind: resumable}
}

// seedPage is about how many bytes of a seed are delivered in one page.
const seedPage = 16 << 20
