package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/store"
)

const (
	// lookAtConfigEvery is how often the configuration is read: it is small. That finds what is written in place as well as the links that Kubernetes
	// exchanges under a ConfigMap.
	lookAtConfigEvery = 2 * time.Second
	// applyAgain is how long a configuration that could not be applied, because of the server say, waits to be tried again.
	applyAgain = 30 * time.Second
)

// configured is a configuration and what it was read from.
type configured struct {
	config *config.Config
	data   []byte
}

func readConfigured(path string) (*configured, error) {
	data, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(path, data)
	if err != nil {
		return nil, err
	}
	return &configured{c, data}, nil
}

// reloader follows a configuration file. One that is wrong, or that asks for what needs a restart, is refused until it
// changes; one that can not be applied now is tried again.
type reloader struct {
	path    string
	applied *configured // what counts; used by run's goroutine only
	hangups <-chan os.Signal
	// apply makes a configuration count.
	apply func(context.Context, *config.Config) error
	// report is told how each attempt went.
	report func(ok bool)
	// every is how often the file is read, for tests. Default lookAtConfigEvery.
	every time.Duration

	seen  []byte    // what the file had when it was read last
	tried []byte    // what was tried last, if it does not count
	again time.Time // when that is to be tried again; zero is never
	said  string    // the error that was logged last
}

// run follows the file until ctx ends.
func (r *reloader) run(ctx context.Context) {
	if r.every == 0 {
		r.every = lookAtConfigEvery
	}
	r.seen = r.applied.data
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hangups:
			r.said = ""
			r.reload(ctx)
		case <-tick.C:
			r.look(ctx)
		}
	}
}

// look reloads if the file has changed, and holds still: an editor may be writing it.
func (r *reloader) look(ctx context.Context) {
	data, err := config.Read(r.path)
	if err != nil {
		return // it is being replaced, or has gone: what counts goes on, and SIGHUP says why
	}
	still := bytes.Equal(data, r.seen)
	r.seen = data
	switch {
	case !still, bytes.Equal(data, r.applied.data):
		return
	case bytes.Equal(data, r.tried) && (r.again.IsZero() || time.Now().Before(r.again)):
		return
	}
	r.reload(ctx)
}

// reload reads the file and makes it count.
func (r *reloader) reload(ctx context.Context) {
	next, err := readConfigured(r.path)
	r.again = time.Time{}
	what := "The new configuration is refused; the old one goes on"
	if err == nil {
		r.tried = next.data
		if needed := r.applied.config.RestartNeeded(next.config); len(needed) > 0 {
			err = withHint(fmt.Errorf("%s: %s %w", r.path, strings.Join(needed, ", "), errRestart), "restart it")
		} else if err = r.apply(ctx, next.config); err != nil && !errors.Is(err, errRestart) {
			r.again = time.Now().Add(applyAgain)
			what = "The new configuration can not be applied now; the old one goes on, and the new one is tried again"
		}
	} else if data, readErr := config.Read(r.path); readErr == nil {
		r.tried = data
	}
	if ctx.Err() != nil {
		return
	}
	r.report(err == nil)
	if err == nil {
		r.applied, r.tried, r.said = next, nil, ""
		return
	}
	if text := err.Error(); text != r.said {
		r.said = text
		klog.FromContext(ctx).Error(err, what, hintOf(err)...)
	}
}

// hintOf is the hint of an error for a log.
func hintOf(err error) []any {
	var h hinted
	if errors.As(err, &h) {
		return []any{"hint", h.hint}
	}
	return nil
}

// reload returns what makes a configuration count.
func (sv *service) reload(o *syncOptions) func(context.Context, *config.Config) error {
	return func(ctx context.Context, c *config.Config) error {
		sv.notify.reloading()
		defer sv.notify.ready()
		set, err := o.fromConfig(c)
		if err != nil {
			return err
		}
		mo := sv.memberOptions(set)
		infos, err := sv.mirror.store.Collections(ctx)
		if err != nil {
			return err
		}
		pl := sv.planner
		pl.running = func(id store.Identity) bool { return sv.mirror.runs(id, mo) }
		plan, err := pl.plan(ctx, infos, set.wanted)
		if err != nil {
			return err
		}
		if err := sv.mirror.sameResidencies(plan); err != nil {
			closeIdle(plan)
			return err
		}
		changed, err := sv.mirror.replace(ctx, plan, mo)
		if err != nil {
			closeIdle(plan)
			return err
		}
		sv.mu.Lock()
		sv.ready = set.ready
		sv.mu.Unlock()
		sv.warnOfSecrets(ctx, changed.begun)
		tell(ctx, c.File, changed)
		return nil
	}
}

// tell logs what a new configuration has changed.
func tell(ctx context.Context, file string, c change) {
	logger := klog.FromContext(ctx)
	for _, mb := range c.stopped {
		if slices.ContainsFunc(c.begun, func(o *member) bool { return o.identity == mb.identity }) {
			continue
		}
		logger.Info("No longer mirrored; what is stored of it stays in the file until retention.forgetAfter has passed", "resource", label(mb.collection()))
	}
	logger.Info("The configuration counts", "file", file, "begun", labelsOf(c.begun), "stopped", labelsOf(c.stopped), "unchanged", c.kept)
}

func labelsOf(members []*member) []string {
	all := []string{}
	for _, mb := range members {
		all = append(all, label(mb.collection()))
	}
	return all
}
