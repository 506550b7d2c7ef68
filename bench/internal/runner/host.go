package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/store"
)

// caseTimeout ends a case that hangs. The slowest case takes a few minutes.
const caseTimeout = 15 * time.Minute

type host struct {
	cluster cluster.Cluster
	kind    load.Kind
	dir     string
	// revision is the highest revision annotation of the server's objects.
	revision int
	// stored has the paths of stores whose objects equal the server's.
	stored map[string]bool
}

func (h *host) run(ctx context.Context, s scenario.Scenario, c scenario.Case) (scenario.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	c.Access = h.cluster.Access()
	if err := h.provideFile(ctx, s, &c); err != nil {
		return nil, err
	}
	changes := h.reserve(s, &c)
	if changes.BeforeStart {
		if err := h.change(ctx, c, changes); err != nil {
			return nil, err
		}
	}
	if err := cluster.Quiesce(ctx, h.cluster); err != nil {
		return nil, err
	}
	before, counted := h.cluster.CPU()
	result, err := runProcess(ctx, c, func(proceed func() error) error {
		if changes.PerSecond > 0 {
			return errors.Join(proceed(), h.change(ctx, c, changes))
		}
		return errors.Join(h.change(ctx, c, changes), proceed())
	})
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
		h.stored[c.File] = true
	}
	return result, nil
}

// reserve returns the changes that a case makes on the server, if any, and writes their number and last object into the
// case. It marks all stores as out of date.
func (h *host) reserve(s scenario.Scenario, c *scenario.Case) (changes scenario.Changes) {
	if s.Changes == nil {
		return changes
	}
	changes = s.Changes(*c)
	h.revision += changes.Rounds
	c.Made, c.Revision = changes.Rounds*len(changes.Numbers), h.revision
	c.Marker = changes.Numbers[len(changes.Numbers)-1]
	clear(h.stored)
	return changes
}

// change makes the changes of a case on the server. If a rate is set, late changes follow at once until the rate is
// met.
func (h *host) change(ctx context.Context, c scenario.Case, changes scenario.Changes) error {
	start, each := time.Now(), len(changes.Numbers)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for done := 0; done < c.Made; {
		due := c.Made
		if changes.PerSecond > 0 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			due = min(int(time.Since(start).Seconds()*changes.PerSecond), c.Made)
		}
		for done < due {
			round, from := done/each, done%each
			to := min(from+due-done, each)
			revision := c.Revision - changes.Rounds + 1 + round
			if err := h.cluster.Change(ctx, h.kind, changes.Numbers[from:to], revision); err != nil {
				return err
			}
			done += to - from
		}
	}
	if changes.LoseHistory {
		return h.cluster.LoseHistory(ctx)
	}
	return nil
}

// provideFile sets the path of the store that a case uses. Depending on the scenario, it updates or removes that store.
func (h *host) provideFile(ctx context.Context, s scenario.Scenario, c *scenario.Case) error {
	if !s.Stored {
		c.File = filepath.Join(h.dir, "cold.db")
		if err := os.Remove(c.File); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	c.File = filepath.Join(h.dir, "typed.db")
	if c.Subject.Dynamic {
		c.File = filepath.Join(h.dir, "dynamic.db")
	}
	if c.Subject.Library != subject.Larder && c.Subject.Library != subject.Raw {
		return nil
	}
	if err := h.prepare(ctx, c.File, c.Subject.Dynamic); err != nil || !s.Compacted {
		return err
	}
	if _, err := store.Compact(ctx, c.File, store.Options{}); err != nil {
		return err
	}
	from := c.File
	c.File = filepath.Join(h.dir, "compacted.db")
	return copyFile(c.File, from)
}

func (h *host) prepare(ctx context.Context, file string, dynamic bool) error {
	if h.stored[file] {
		return nil
	}
	r, err := subject.Start(ctx, subject.Options{
		Spec: subject.Spec{Library: subject.Larder, Residency: subject.None, Dynamic: dynamic},
		Kind: h.kind, Config: h.cluster.Access().Config(), File: file,
	})
	if err != nil {
		return err
	}
	_, err = r.AwaitSync(ctx)
	err = errors.Join(err, r.Stop())
	h.stored[file] = err == nil
	return err
}

// copyPage is the size of copyFile's writes. The kernel's account of written bytes counts folios, which are as large as
// the write that created them. After large writes, one changed page would count as megabytes.
const copyPage = 4096

// copyFile copies a file and syncs the copy to disk. Without the sync, a case would write the copy's dirty pages
// itself, or change pages that are already dirty, which the kernel does not count a second time.
func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	// The wrappers hide the file types from io.Copy. Otherwise the kernel copies the data, in writes of another size.
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, copyPage))
	return errors.Join(err, out.Sync())
}
