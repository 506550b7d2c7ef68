package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/store"
)

// caseTimeout is for a case that hangs: the slowest takes a few minutes.
const caseTimeout = 15 * time.Minute

// A server that has just answered a list of everything is still busy with its garbage. It is quiet when it uses less than a tenth of
// a core, and is not waited for for ever.
const (
	quietWindow = 300 * time.Millisecond
	quietShare  = 0.1
	quietAfter  = 15 * time.Second
)

// host is the server of a group of cases, and the files that were made from it.
type host struct {
	cluster  cluster.Cluster
	dir      string
	revision int
	// version counts the changes; stored has, for each file, that of the state it holds.
	version int
	stored  map[string]int
}

var _ scenario.Host = (*host)(nil)

// Cluster implements scenario.Host.
func (h *host) Cluster() cluster.Cluster { return h.cluster }

// Revisions implements scenario.Host.
func (h *host) Revisions(count int) int {
	first := h.revision + 1
	h.revision += count
	return first
}

// Changed implements scenario.Host.
func (h *host) Changed() { h.version++ }

// run runs one case, with everything that it takes.
func (h *host) run(ctx context.Context, s scenario.Scenario, c scenario.Case) (scenario.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	c.Scenario, c.Access = s.Name, h.cluster.Access()
	if err := h.provideFile(ctx, s, &c); err != nil {
		return nil, err
	}
	if s.Before != nil {
		if err := s.Before(ctx, h, &c); err != nil {
			return nil, err
		}
	}
	h.settle(ctx)
	before, counted := h.cluster.CPU()
	result, err := h.runProcess(ctx, s, c)
	if err != nil {
		return nil, err
	}
	if _, wanted := result[scenario.ServerCPU]; wanted {
		delete(result, scenario.ServerCPU)
		if after, ok := h.cluster.CPU(); ok && counted {
			result[scenario.ServerCPU] = (after - before).Seconds()
		}
	}
	if s.Stored && !s.Compacted && c.Subject.Library == subject.Larder {
		h.stored[c.File] = h.version
	}
	return result, nil
}

// runProcess starts the process of the case and acts when it asks for it.
func (h *host) runProcess(ctx context.Context, s scenario.Scenario, c scenario.Case) (_ scenario.Result, err error) {
	p, err := startProcess(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	for {
		ready, result, err := p.next()
		if err != nil || !ready {
			return result, err
		}
		if err := s.Drive(ctx, h, &c, p.proceed); err != nil {
			return nil, err
		}
	}
}

// provideFile says where the file of the case is, and brings it up to what the server has, or removes it.
func (h *host) provideFile(ctx context.Context, s scenario.Scenario, c *scenario.Case) error {
	name := "typed"
	if c.Subject.Dynamic {
		name = "dynamic"
	}
	if !s.Stored {
		c.File = filepath.Join(h.dir, "cold.db")
		if err := os.Remove(c.File); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	c.File = filepath.Join(h.dir, name+".db")
	if c.Subject.Library != subject.Larder && c.Subject.Library != subject.Raw {
		return nil
	}
	if err := h.bringUpToDate(ctx, c); err != nil || !s.Compacted {
		return err
	}
	if _, err := store.Compact(ctx, c.File, store.Options{}); err != nil {
		return err
	}
	from := c.File
	c.File = filepath.Join(h.dir, "compacted.db")
	return copyFile(c.File, from)
}

// bringUpToDate makes the file of a case hold what the server has.
func (h *host) bringUpToDate(ctx context.Context, c *scenario.Case) error {
	version, exists := h.stored[c.File]
	if exists && version == h.version {
		return nil
	}
	first := *c
	first.Scenario = prepareName
	first.Subject = subject.Spec{Library: subject.Larder, Residency: subject.Residencies()[0], Dynamic: c.Subject.Dynamic}
	prepare, _ := scenario.Find(prepareName)
	if _, err := h.runProcess(ctx, prepare, first); err != nil {
		return err
	}
	h.stored[c.File] = h.version
	return nil
}

// prepareName is the scenario that brings a file up to date.
const prepareName = "prepare"

// settle waits until the server is quiet, so that a case does not pay for the one before. The embedded one is in this process, and is
// quiet when its garbage has been collected.
func (h *host) settle(ctx context.Context) {
	deadline := time.Now().Add(quietAfter)
	last, counted := h.cluster.CPU()
	if !counted {
		runtime.GC()
		return
	}
	for counted && time.Now().Before(deadline) {
		select {
		case <-time.After(quietWindow):
		case <-ctx.Done():
			return
		}
		var now time.Duration
		if now, counted = h.cluster.CPU(); float64(now-last) < quietShare*float64(quietWindow) {
			return
		}
		last = now
	}
}
