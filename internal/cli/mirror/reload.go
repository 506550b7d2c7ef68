package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/config"
)

const (
	// lookAtConfigEvery is how often the configuration is read: it is small. That finds what is written in place as well
	// as the links that Kubernetes exchanges under a ConfigMap.
	lookAtConfigEvery = 2 * time.Second
	// applyAgain is how long a configuration that could not be applied, because of the server say, waits to be tried
	// again.
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
// changes; one that cannot be applied now is tried again.
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

	seen  sight     // what the file was when it was read last
	tried sight     // what was tried last
	wrong bool      // what was tried last does not count
	again time.Time // when that is to be tried again; zero is never
	said  string    // the error that was logged last
}

// sight is what a configuration file is: what it has, or why it cannot be read.
type sight struct{ data, err string }

func sightOf(data []byte, err error) sight {
	if err != nil {
		return sight{err: err.Error()}
	}
	return sight{data: string(data)}
}

// run follows the file until ctx ends.
func (r *reloader) run(ctx context.Context) {
	if r.every == 0 {
		r.every = lookAtConfigEvery
	}
	r.seen = sightOf(r.applied.data, nil)
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

// look reloads if the file has changed, and holds still: an editor may be writing it, or replacing it. One that has
// gone, or is empty, is wrong as any other.
func (r *reloader) look(ctx context.Context) {
	now := sightOf(config.Read(r.path))
	still := now == r.seen
	r.seen = now
	switch {
	case !still, !r.wrong && now == sightOf(r.applied.data, nil):
		return
	case r.wrong && now == r.tried && (r.again.IsZero() || time.Now().Before(r.again)):
		return
	}
	r.reload(ctx)
}

// reload reads the file and makes it count.
func (r *reloader) reload(ctx context.Context) {
	data, err := config.Read(r.path)
	r.tried, r.again = sightOf(data, err), time.Time{}
	what := "The new configuration is refused; the old one goes on"
	var next *config.Config
	if err != nil {
		what = "The configuration cannot be read; the old one goes on"
		err = command.WithHint(err, "put the file back, with what is to be mirrored")
	} else if next, err = config.Parse(r.path, data); err == nil {
		if needed := r.applied.config.RestartNeeded(next); len(needed) > 0 {
			err = command.WithHint(fmt.Errorf("%s: %s cannot change while sync runs", r.path, strings.Join(needed, ", ")),
				"restart it")
		} else if err = r.apply(ctx, next); err != nil && !errors.Is(err, errNotMirrored) {
			r.again = time.Now().Add(applyAgain)
			what = "The new configuration cannot be applied now; the old one goes on, and the new one is tried again"
		}
	}
	if ctx.Err() != nil {
		return
	}
	r.wrong = err != nil
	r.report(err == nil)
	if err == nil {
		r.applied, r.said = &configured{next, data}, ""
		return
	}
	if text := err.Error(); text != r.said {
		r.said = text
		klog.FromContext(ctx).Error(err, what, hintFor(err)...)
	}
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
		pl.running = func(id entry.Identity) bool { return sv.mirror.runs(id, mo) }
		plan, err := pl.plan(ctx, infos, set.wanted)
		if err != nil {
			return err
		}
		if err := checkSeals(set.seals, plan); err != nil {
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
		logger.Info("No longer mirrored; what is stored of it stays in the file until retention.forgetAfter has passed",
			"resource", input.Label(mb.collection()))
	}
	logger.Info("The configuration counts", "file", file, "begun", labelsOf(c.begun), "stopped", labelsOf(c.stopped),
		"unchanged", c.kept)
}

func labelsOf(members []*member) []string {
	all := []string{}
	for _, mb := range members {
		all = append(all, input.Label(mb.collection()))
	}
	return all
}
