package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
)

const (
	defaultPods = 5000
	minPods     = 20
	stepTimeout = 2 * time.Minute
	pollEvery   = 2 * time.Millisecond
	// offlinePatience is how long the demo lets client-go's informer try to sync without a server.
	offlinePatience = time.Second
)

// Options configure Run. The zero value works.
type Options struct {
	// Pods is the number of pods, at least 20. Default: 5,000.
	Pods int
	// Out receives the output. Default: none.
	Out io.Writer
	// Dir is the directory of Larder's file, which stays after Run. Default: a temporary directory that Run removes.
	Dir string
}

type story struct {
	o       Options
	cluster Cluster
	world   *world
	out     *printer
	file    string
	report  Report

	// now is the server's state, by key. While Larder is stopped, it is also the state in Larder's file.
	now  state
	down bool
}

// Run runs the demo. With an error it still returns the figures measured so far. The error wraps ErrClaim if a claim of
// the demo is false.
func Run(ctx context.Context, cluster Cluster, o Options) (_ Report, err error) {
	if o.Pods == 0 {
		o.Pods = defaultPods
	}
	if o.Pods < minPods {
		return Report{}, fmt.Errorf("the demo needs at least %d pods, not %d", minPods, o.Pods)
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "larder-demo-"); err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	// Informers log each refused connection. The demo causes many, so their log is discarded.
	ctx = klog.NewContext(ctx, logr.Discard())
	s := &story{o: o, cluster: cluster, out: &printer{w: o.Out}, file: filepath.Join(o.Dir, "demo.larder")}
	if s.world, err = newWorld(cluster); err != nil {
		return Report{}, err
	}
	err = errors.Join(s.run(ctx), s.cleanUp(ctx))
	return s.report, errors.Join(err, s.out.err)
}

func (s *story) run(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		s.prepare, s.coldStart, s.restart, s.offline,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	s.out.table(s.report)
	return nil
}

func (s *story) cleanUp(ctx context.Context) error {
	if s.down {
		if err := s.cluster.Start(context.WithoutCancel(ctx)); err != nil {
			s.world.client.close()
			return err
		}
	}
	return s.world.remove(ctx)
}

func (s *story) prepare(ctx context.Context) error {
	if err := s.world.makeNamespace(ctx); err != nil {
		return err
	}
	s.out.title(s.cluster.Label(), s.o.Pods, s.world.namespace)
	for _, note := range s.cluster.Notes() {
		s.out.line("%s", note)
	}
	started := time.Now()
	if err := s.world.create(ctx, s.o.Pods); err != nil {
		return err
	}
	now, err := s.world.list(ctx)
	if err != nil {
		return err
	}
	s.now = now
	s.out.line("Created %s pods in %s.", count(s.o.Pods), span(time.Since(started)))
	return nil
}

// start starts Larder for a step. stored is the state on disk.
func (s *story) start(ctx context.Context, step string, policy informer.SyncPolicy, stored state) (*larder, error) {
	rvs := map[string]string{}
	for key, pod := range stored {
		rvs[key] = pod.ResourceVersion
	}
	return startLarder(ctx, larderStart{
		cluster: s.cluster, namespace: s.world.namespace, file: s.file,
		userAgent: "larder-demo/" + step, policy: policy,
		ledger: newLedger(rvs, s.world.namespace+"/marker-"+step),
	})
}

func (s *story) measure(ctx context.Context, l *larder, took time.Duration) (Measure, error) {
	m := Measure{Synced: true, Took: took, Received: l.client.received.Load(),
		Objects: len(l.informer.GetStore().ListKeys())}
	var err error
	m.Requests, err = s.cluster.Requests(ctx, l.client.userAgent)
	return m, err
}

func (s *story) verify(ctx context.Context, l *larder, step *Step, replayed int, want changes) error {
	// The handler receives events in order. So the events of a pod created last (the marker) follow all events of the
	// step.
	if err := s.mark(ctx, l); err != nil {
		return fmt.Errorf("%s: %w: %w", step.Name, ErrClaim, err)
	}
	if err := l.ledger.compare(replayed, want); err != nil {
		return fmt.Errorf("%s: what the handler was told: %w: %w", step.Name, ErrClaim, err)
	}
	step.Replayed = replayed
	step.Created, step.Updated, step.Deleted = want.created, want.updated, want.deleted
	now, err := s.world.list(ctx)
	if err != nil {
		return err
	}
	s.now = now
	return s.equal(step, l, now)
}

func (s *story) mark(ctx context.Context, l *larder) error {
	name := nameOf(l.ledger.marker)
	if err := s.world.createPod(ctx, name); err != nil {
		return err
	}
	if err := l.await(ctx, l.ledger.marked); err != nil {
		return err
	}
	if err := s.world.deletePod(ctx, name); err != nil {
		return err
	}
	return l.await(ctx, l.ledger.unmarked)
}

func (s *story) equal(step *Step, l *larder, want state) error {
	if err := want.equal(l.informer.GetStore()); err != nil {
		return fmt.Errorf("%s: the store: %w: %w", step.Name, ErrClaim, err)
	}
	return nil
}

func claim(holds bool, step *Step, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", step.Name, ErrClaim, fmt.Sprintf(format, args...))
}

// compareClientGo repeats a step with client-go's informer, by WatchList and by LIST.
func (s *story) compareClientGo(ctx context.Context, step *Step) error {
	for _, way := range []struct {
		m        *Measure
		withList bool
		name     string
	}{{&step.Default, false, "watchlist"}, {&step.List, true, "list"}} {
		userAgent := fmt.Sprintf("larder-demo/%d-client-go-%s", len(s.report.Steps), way.name)
		p, err := startPlain(ctx, s.cluster, s.world.namespace, userAgent, way.withList)
		if err != nil {
			return err
		}
		took, err := p.awaitSync(ctx)
		*way.m = Measure{
			Synced: err == nil, Took: took, Received: p.client.received.Load(), Objects: len(p.informer.GetStore().ListKeys()),
		}
		p.stop()
		if err != nil {
			return err
		}
		if way.m.Requests, err = s.cluster.Requests(ctx, userAgent); err != nil {
			return err
		}
		if err := claim(way.m.Objects == len(s.now), step, "client-go's informer has %d pods, not %d", way.m.Objects,
			len(s.now)); err != nil {
			return err
		}
	}
	return nil
}
