package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
)

// equal compares a cache with the server's state. The error names the first few differences.
func (want state) equal(got cache.Store) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(want)) {
		obj, exists, err := got.GetByKey(key)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		case !exists:
			errs = append(errs, fmt.Errorf("%s is missing", key))
		case !apiequality.Semantic.DeepEqual(obj, want[key]):
			errs = append(errs, fmt.Errorf("%s is not what the server has", key))
		}
		if len(errs) >= 5 {
			break
		}
	}
	if n := len(got.ListKeys()); n != len(want) {
		errs = append(errs, fmt.Errorf("%d pods, the server has %d", n, len(want)))
	}
	return errors.Join(errs...)
}

func (s *story) coldStart(ctx context.Context) (err error) {
	s.out.chapter("Cold start. Nothing is on disk.")
	step := &Step{Name: "cold start"}
	l, err := s.startAndSync(ctx, step, "1-cold", nil)
	if err != nil {
		return err
	}
	defer func() { err = s.finish(ctx, l, step, err) }()
	m := step.Larder
	if err := claim(m.Requests.Lists > 0, step, "the server has counted no LIST: %+v", m.Requests); err != nil {
		return err
	}
	all := changes{created: slices.Collect(maps.Keys(s.now))}
	if err := s.verify(ctx, l, step, 0, all.sort()); err != nil {
		return err
	}
	s.out.cost(m)
	s.out.line("%s pods on disk. The store equals a fresh LIST, pod by pod.", count(m.Objects))
	return nil
}

func (s *story) startAndSync(ctx context.Context, step *Step, name string, stored state) (*larder, error) {
	l, err := s.start(ctx, name, informer.Resumed, stored)
	if err != nil {
		return nil, err
	}
	took, err := l.awaitSync(ctx)
	if err == nil {
		step.Larder, err = s.measure(ctx, l, took)
	}
	if err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return l, nil
}

// finish stops Larder. If the step had no error, it repeats the step with client-go's informer and adds the step to the
// report.
func (s *story) finish(ctx context.Context, l *larder, step *Step, err error) error {
	if err = errors.Join(err, l.stop()); err != nil {
		return err
	}
	err = s.compareClientGo(ctx, step)
	s.report.Steps = append(s.report.Steps, *step)
	return err
}

func (s *story) restart(ctx context.Context) (err error) {
	step := &Step{Name: "restart"}
	stored := s.now
	done, err := s.world.change(ctx, stored, 1)
	if err != nil {
		return err
	}
	s.out.chapter("Larder was stopped. Meanwhile %s. Larder starts again.", done)
	l, err := s.startAndSync(ctx, step, "2-restart", stored)
	if err != nil {
		return err
	}
	defer func() { err = s.finish(ctx, l, step, err) }()
	m := step.Larder
	if err := claim(m.Requests.WholeState() == 0 && m.Requests.Watches > 0, step, "the server has counted %+v",
		m.Requests); err != nil {
		return err
	}
	if err := s.verify(ctx, l, step, len(stored), done); err != nil {
		return err
	}
	s.out.cost(m)
	s.out.events(step, "The handler received the %s stored pods, and then exactly what had happened:")
	s.out.line("The store equals a fresh LIST, pod by pod.")
	return nil
}

// offline starts Larder without the server, then starts the server without its watch history.
func (s *story) offline(ctx context.Context) (err error) {
	step := &Step{Name: "start without the API server"}
	stored := s.now
	done, err := s.world.change(ctx, stored, 2)
	if err != nil {
		return err
	}
	s.out.chapter("Larder was stopped. Meanwhile %s; then the API server is stopped too.", done)
	if err := s.stopServer(ctx); err != nil {
		return err
	}
	l, err := s.start(ctx, "3-offline", informer.Disk, stored)
	if err != nil {
		return err
	}
	back := &Step{Name: "API server back, history lost (410)"}
	defer func() { err = s.finish(ctx, l, back, err) }()
	if err := s.serveFromDisk(ctx, l, step, stored); err != nil {
		return err
	}
	s.report.Steps = append(s.report.Steps, *step)
	s.out.chapter("The API server is back. Its restart has lost the watch history.")
	return s.comeBack(ctx, l, back, len(stored), done)
}

func (s *story) stopServer(ctx context.Context) error {
	s.down = true
	err := s.cluster.Stop(ctx)
	// Connections from before the server's stop are closed, because the first request after the server's start might use
	// such a connection and fail.
	s.world.client.close()
	return err
}

func (s *story) serveFromDisk(ctx context.Context, l *larder, step *Step, stored state) error {
	took, err := l.awaitSync(ctx)
	if err != nil {
		return err
	}
	status := l.informer.Status()
	step.Larder = Measure{Synced: true, Took: took, Received: l.client.received.Load(), Objects: status.Objects}
	step.Age = time.Since(status.LastContact)
	step.Replayed = status.Objects
	if err := claim(status.Source == informer.FromDisk && !status.LastContact.IsZero(), step, "the data comes from %s",
		status.Source); err != nil {
		return err
	}
	if err := s.equal(step, l, stored); err != nil {
		return err
	}
	p, err := startPlain(ctx, s.cluster, s.world.namespace, "larder-demo/3-client-go-offline", false)
	if err != nil {
		return err
	}
	timer := time.NewTimer(offlinePatience)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	step.Default = Measure{Synced: p.informer.HasSynced(), Took: time.Since(p.started),
		Objects: len(p.informer.GetStore().ListKeys())}
	step.List = step.Default
	p.stop()
	s.out.line("All %s pods are served from disk, %s after the start, as they were at the last contact %s ago.",
		count(step.Larder.Objects), span(took), span(step.Age))
	s.out.line("They equal what a LIST said then. (client-go's informer: %s pods after %s.)",
		count(step.Default.Objects), span(step.Default.Took))
	return ctx.Err()
}

func (s *story) comeBack(ctx context.Context, l *larder, step *Step, replayed int, done changes) error {
	received := l.client.received.Load()
	l.client.noteAnswer()
	if err := s.cluster.Start(ctx); err != nil {
		return err
	}
	s.down = false
	started := time.Now()
	live, err := l.awaitLive(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", step.Name, ErrClaim, err)
	}
	answered := l.client.firstAnswer()
	if step.Larder, err = s.measure(ctx, l, live.Sub(answered)); err != nil {
		return err
	}
	m := &step.Larder
	m.Received -= received
	m.Waited = max(answered.Sub(started), 0)
	status := l.informer.Status().Reflector
	step.Reason = string(status.LastRelist)
	relists := status.Relists[reflector.ReasonExpired]
	if err := claim(relists == 1 && len(status.Relists) == 1, step, "the relists are %v", status.Relists); err != nil {
		return err
	}
	if err := s.verify(ctx, l, step, replayed, done); err != nil {
		return err
	}
	noticed := "at once"
	if m.Waited > 0 {
		noticed = "after " + span(m.Waited)
	}
	s.out.line("Larder noticed it %s; its watch was answered with 410, and it listed once (reason: %s).", noticed,
		step.Reason)
	s.out.cost(*m)
	s.out.events(step, "Of %s stored pods the list reports only what differed:")
	s.out.line("The store equals a fresh LIST, pod by pod.")
	return nil
}
