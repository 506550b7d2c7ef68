package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store"
)

// TestDamagedFile damages a store file in many ways. A process may crash at most once on the file, and must then reach
// the server's state.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 600))
	f := newFile(t)
	p := startChild(t, c.Config(t.Name()), childConfig{Store: f.path, Namespace: c.ns})
	p.waitFor(t, "the first list", func(r childReport) bool { return r.Synced && r.Index == 600 })
	p.terminate(t)
	good, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	pages := pagesOf(t, f.path)

	random := newRandom(t)
	used := 0
	for _, ids := range pages {
		used = max(used, slices.Max(ids)+1)
	}
	ruined := map[string][]byte{
		"truncated to a page": good[:pageSize],
		"truncated to half":   good[:used/2*pageSize],
		"truncated unevenly":  good[:used/3*pageSize+17],
		"last page missing":   good[:(used-1)*pageSize],
		"zeros":               make([]byte, len(good)),
		"zeros behind meta":   append(slices.Clone(good[:2*pageSize]), make([]byte, len(good)-2*pageSize)...),
	}
	for name, raw := range ruined {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.surviveDamage(t, raw, true)
		})
	}
	flips := 6
	if soak {
		flips = 250 // about a thousand flipped bits in all pages together
	}
	for _, kind := range []string{"meta", "freelist", "branch", "leaf"} {
		if len(pages[kind]) == 0 {
			t.Fatalf("the file has no %s page: %v", kind, pages)
		}
		for n := range flips {
			page := pages[kind][random.IntN(len(pages[kind]))]
			// Half of the flipped bits are in the header and the first elements of a page, which bbolt itself reads.
			within := random.IntN(pageSize)
			if n%2 == 0 {
				within = random.IntN(64)
			}
			bit := random.IntN(8)
			t.Run(fmt.Sprintf("bit %d of byte %d of %s page %d", bit, within, kind, page), func(t *testing.T) {
				t.Parallel()
				raw := slices.Clone(good)
				raw[page*pageSize+within] ^= 1 << bit
				c.surviveDamage(t, raw, false)
			})
		}
	}
}

const pageSize = 4096

// surviveDamage starts child processes on a file with these bytes until a child reaches the server's state. With
// quarantine, the damaged file must have been moved aside.
func (c *cluster) surviveDamage(t *testing.T, raw []byte, quarantine bool) {
	f := newFile(t)
	if err := os.WriteFile(f.path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &damaged{cluster: c, file: f, want: c.pods(t)}
	d.live(t).terminate(t)
	// A damaged page that no reader needs stays in the file until an integrity check finds it: on demand, or after an
	// unclean close. Then the child ends, and the next one repairs the file. A damaged record is listed again.
	for tries := 0; d.problems(t) != nil; tries++ {
		if tries == 3 {
			t.Fatalf("still damaged: %q", d.problems(t))
		}
		d.live(t).kill()
		p := d.live(t)
		select {
		case <-p.done:
			p = d.live(t)
		case <-time.After(verified):
		}
		p.waitFor(t, "healing", d.healthy)
		p.terminate(t)
	}
	src := podSource(t, c.Config(t.Name()), c.ns)
	if problem := d.want.diff(f.read(t, src.identity, src.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
	if quarantine && len(d.movedAside(t)) == 0 {
		t.Error("the damaged file was not moved aside")
	}
}

// verified is how long a child needs to verify its file in the background and to list damaged records again.
const verified = 3 * time.Second

// repairLimit is the timeout for a child to repair its file. The design's goal is ten seconds.
const repairLimit = 30 * time.Second

type damaged struct {
	*cluster
	file    *file
	want    objects
	crashes int
}

// live starts a child process and waits until the child has the server's state. The first child may crash instead. A
// child that finds damage of a page ends, and the next one repairs the file.
func (d *damaged) live(t *testing.T) *child {
	t.Helper()
	for ended := 0; ; {
		p := startChild(t, d.Config(t.Name()), childConfig{Store: d.file.path, Namespace: d.ns})
		crashed := false
		within(t, repairLimit, "converging", func() string {
			if crashed = p.crashed(); crashed || d.healthy(p.report()) {
				return ""
			}
			return fmt.Sprintf("%+v", p.report())
		})
		if !crashed {
			return p
		}
		t.Logf("crash: %v\n%s", p.err, p.stderr())
		if exit := (*exec.ExitError)(nil); errors.As(p.err, &exit) && exit.ExitCode() == exitDamaged {
			if ended++; ended > 1 {
				t.Fatal("the repaired file was damaged again")
			}
			continue
		}
		if d.crashes++; d.crashes > 1 {
			t.Fatal("more than one crash")
		}
	}
}

func (d *damaged) healthy(r childReport) bool {
	return r.Synced && r.Err == "" && r.Listed == len(d.want) && r.Index == len(d.want)
}

func (d *damaged) problems(t *testing.T) []string {
	t.Helper()
	s, err := store.Open(d.file.path, store.Options{ReadOnly: true})
	if err != nil {
		return []string{err.Error()}
	}
	defer s.Close()
	report, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report.Problems
}

func (d *damaged) movedAside(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(d.file.path + "*damaged*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func pagesOf(t *testing.T, path string) map[string][]int {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n := db.Info().PageSize; n != pageSize {
		t.Fatalf("page size %d", n)
	}
	pages := map[string][]int{}
	err = db.View(func(tx *bbolt.Tx) error {
		for id := 0; ; {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return err
			}
			pages[page.Type] = append(pages[page.Type], id)
			id += 1 + page.OverflowCount
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
