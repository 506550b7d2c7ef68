package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// One object in a hundred is changed a hundred times in a minute: at 100,000 objects that is 1,667 changes a second.
const (
	flashRounds  = 100
	flashSeconds = 60.0
	// flashSample is how many of the events are committed one by one, to know what that costs; flashLeast in a short run.
	flashSample = 1000
	flashLeast  = 100
)

// EachEvent is what is compared with: a transaction for each event.
const EachEvent = "committing each event"

// One case commits every ten seconds. Its results have the keys of the others with a suffix.
const (
	seldomInterval = 10 * time.Second
	seldom         = "_seldom"
)

// flash: what a few busy objects cost the disk.
var flash = Scenario{
	Name: "flash", Title: "1 % of the objects, each updated 100 times a minute",
	// The freelist of a file that much has happened to is long, and each commit writes it: committing each event would pay for what the scenarios
	// before have left, and Larder's few commits would look better than they are. Both begin with the same file, which has no free pages.
	Kinds: []string{"pods"}, Embedded: true, Stored: true, Compacted: true,
	Metrics: []Metric{
		{Key: "written", Title: "bytes written for each event", Unit: Bytes, Against: EachEvent},
		{Key: "io", Title: "bytes written for each event, by the kernel's account", Unit: Bytes, Against: EachEvent},
		{Key: "written" + seldom, Title: "bytes written for each event, a commit in ten seconds", Unit: Bytes, Against: EachEvent},
		{Key: "io" + seldom, Title: "bytes written for each event, a commit in ten seconds, by the kernel's account", Unit: Bytes, Against: EachEvent},
	},
	Subjects: func(load.Kind) []subject.Spec {
		// What is written does not depend on what is kept in memory: one residency is enough.
		return []subject.Spec{
			{Library: subject.Larder, Residency: subject.All},
			{Library: subject.Larder, Residency: subject.All, CommitInterval: seldomInterval},
			{Library: subject.Raw},
		}
	},
	Before: func(_ context.Context, h Host, c *Case) error {
		c.Marker = last(hotOf(*c))
		c.Revision = h.Revisions(flashRoundsOf(*c)) + flashRoundsOf(*c) - 1
		h.Changed()
		return nil
	},
	Drive: func(ctx context.Context, h Host, c *Case, proceed func() error) error {
		if err := proceed(); err != nil {
			return err
		}
		round := *c
		for n := range flashRoundsOf(*c) {
			round.Revision = c.Revision - flashRoundsOf(*c) + 1 + n
			if err := pace(ctx, h, &round, hotOf(*c), float64(len(hotOf(*c)))*flashRounds/flashSeconds); err != nil {
				return err
			}
		}
		return nil
	},
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		if b.Case.Subject.Library == subject.Raw {
			return eachEvent(ctx, b)
		}
		return runFlash(ctx, b)
	},
	Seconds: func(c Case) float64 {
		if c.Subject.Library == subject.Raw {
			return linear(5, 0.6)(c)
		}
		return linear(1.5, 1.3)(c) + flashSeconds*float64(flashRoundsOf(c))/flashRounds
	},
}

// hotOf are the objects that are changed.
func hotOf(c Case) []int { return every(100, c.N) }

// flashRoundsOf is how often each is changed: as often as fits in the time. The rate stays the same.
func flashRoundsOf(c Case) int { return max(int(flashRounds*c.Effort), 1) }

func runFlash(ctx context.Context, b *Bench) (Result, error) {
	w := subject.NewWitness(b.Kind, 0, b.markerKey(), b.Case.Revision)
	r, err := b.start(ctx, w)
	if err != nil {
		return nil, err
	}
	if err = r.AwaitTold(ctx); err != nil {
		return finish(r, nil, err)
	}
	made := len(hotOf(b.Case)) * flashRoundsOf(b.Case)
	earlier := tallyOf(r, w)
	before, err := countWritten(r.Store)
	if err == nil {
		err = b.Ready(ctx)
	}
	if err == nil {
		err = await(ctx, "the last update", w.Seen)
	}
	if err == nil {
		// A list would have written objects that were not updated, and left out updates.
		err = errors.Join(tallyOf(r, w).since(earlier).check(made), b.resumed(r))
	}
	// Stop writes what is pending: it belongs to the updates.
	_, err = finish(r, nil, err)
	suffix := ""
	if b.Case.Subject.CommitInterval != 0 {
		suffix = seldom
	}
	result := Result{}
	return result, errors.Join(err, before.add(result, suffix, made))
}

// eachEvent commits one change after the other to a file like that of Larder.
func eachEvent(ctx context.Context, b *Bench) (_ Result, err error) {
	s, err := store.Open(b.Case.File, store.Options{CommitInterval: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	codec, err := codec.For(b.Kind.Example)
	if err != nil {
		return nil, err
	}
	c, err := s.Collection(ctx, entry.Identity{GroupVersionResource: b.Kind.GVR}, store.CollectionOptions{
		Codec:         codec,
		Indexers:      cache.Indexers{subject.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		IndexVersions: subject.IndexVersions(),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	before, err := countWritten(s)
	if err != nil {
		return nil, err
	}
	hot := hotOf(b.Case)
	events := max(int(flashSample*b.Case.Effort), flashLeast)
	for n := range events {
		obj := load.WithManagedFields(b.Kind.New(hot[n%len(hot)], b.Case.Revision+n))
		if err := applyOne(ctx, c, obj); err != nil {
			return nil, err
		}
	}
	result := Result{}
	return result, errors.Join(before.add(result, "", events), before.add(result, seldom, events))
}

func applyOne(ctx context.Context, c *store.Collection, obj runtime.Object) error {
	result, err := c.Apply(ctx, store.Batch{Ops: []store.Op{{Object: obj}}})
	if err == nil && len(result.Changes) != 1 {
		err = fmt.Errorf("%d changes, want one; skipped: %v", len(result.Changes), result.Skipped)
	}
	return err
}
