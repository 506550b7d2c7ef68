package sizing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

// Size is a collection to measure: a number of objects of a kind. It is one row of the table.
type Size struct {
	Kind    string
	Objects int
}

// Options select what to measure.
type Options struct {
	Sizes []Size
	// Dir is for temporary files, and Command is printed in the table.
	Dir, Command string
}

// kinds has, for each kind, the size of an object in bytes and a number of changes that takes some seconds.
var kinds = map[string]struct {
	size    string
	changes int
}{"widgets": {"0.4 KB", 40_000}, "pods": {"3 KB", 20_000}, "configmaps": {"100 KB", 1000}}

type measured struct {
	file, grown  int64 // size of the file before and after the changes
	first, again took
	changes      int
	lasted       time.Duration // duration of the changes
	written      int64         // bytes written to disk for all changes
}

type took struct {
	time time.Duration
	anon int64 // the peak of RssAnon until the start was complete
}

// Run measures each size once. It writes each row at once, because large sizes take minutes.
func Run(ctx context.Context, o Options, out, progress io.Writer) error {
	fmt.Fprintf(out, "`%s`, %d cores:\n\n", o.Command, runtime.NumCPU())
	fmt.Fprint(out, "| objects | each | file | memory, first start | first start | memory, restart | restart | "+
		"changes a second | written for a change | file after them |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range o.Sizes {
		fmt.Fprintf(progress, "%d %s\n", s.Objects, s.Kind)
		m, err := measure(ctx, s, o.Dir)
		if err != nil {
			return fmt.Errorf("%d %s: %w", s.Objects, s.Kind, err)
		}
		bytes := func(n int64) string { return report.Figure(float64(n), scenario.Bytes) }
		seconds := func(d time.Duration) string { return report.Figure(d.Seconds(), scenario.Seconds) }
		fmt.Fprintf(out, "| %d | %s | %s | %s | %s | %s | %s | %.0f | %s | %s |\n", s.Objects, kinds[s.Kind].size,
			bytes(m.file), bytes(m.first.anon), seconds(m.first.time), bytes(m.again.anon), seconds(m.again.time),
			float64(m.changes)/m.lasted.Seconds(), bytes(m.written/int64(m.changes)), bytes(m.grown))
	}
	return nil
}

// measure starts larder with an empty store on a new server, starts it again with the stored objects, and changes
// objects.
func measure(ctx context.Context, s Size, dir string) (m measured, err error) {
	dir, err = os.MkdirTemp(dir, "size-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := cluster.StartEmbedded(s.Objects)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	kind, store := load.KindOf(s.Kind), filepath.Join(dir, "cluster.db")
	if err := c.Load(ctx, kind, s.Objects); err != nil {
		return m, err
	}
	if err := c.Collect(ctx); err != nil {
		return m, err
	}
	start := func(run func(*mirror) error) (took, error) {
		r, err := startMirror(c.Access(), kind, store)
		if err != nil {
			return took{}, err
		}
		t, err := r.live(ctx, s.Objects)
		if err == nil && run != nil {
			err = run(r)
		}
		return t, errors.Join(err, r.stop())
	}
	if m.first, err = start(nil); err != nil {
		return m, err
	}
	if m.file, err = sizeOf(store); err != nil {
		return m, err
	}
	m.again, err = start(func(r *mirror) error { return m.change(ctx, c, kind, s.Objects, r) })
	if err != nil {
		return m, err
	}
	m.grown, err = sizeOf(store)
	return m, err
}

// change changes objects evenly spread over the collection, repeatedly if there are few. It waits until the mirror has
// the last change.
func (m *measured) change(ctx context.Context, c cluster.Cluster, kind load.Kind, objects int, r *mirror) error {
	numbers := make([]int, min(objects, kinds[kind.Name].changes))
	for i := range numbers {
		numbers[i] = i * (objects / len(numbers))
	}
	before, err := proc.Written(r.PID())
	if err != nil {
		return err
	}
	start := time.Now()
	for revision := 1; m.changes < kinds[kind.Name].changes; revision++ {
		if err := c.Change(ctx, kind, numbers, revision); err != nil {
			return err
		}
		m.changes += len(numbers)
	}
	newest, err := newest(ctx, c.Access().Config(), kind)
	if err != nil {
		return err
	}
	if err := r.reaches(ctx, newest); err != nil {
		return err
	}
	m.lasted = time.Since(start)
	time.Sleep(2 * time.Second) // long enough for larder's last commit
	after, err := proc.Written(r.PID())
	m.written = after - before
	return err
}

func newest(ctx context.Context, config *rest.Config, kind load.Kind) (rv uint64, err error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	path := "/apis/" + kind.GVR.Group
	if kind.GVR.Group == "" {
		path = "/api"
	}
	url := config.Host + path + "/" + kind.GVR.Version + "/" + kind.GVR.Resource + "?limit=1"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return 0, fmt.Errorf("%s: %w", url, err)
	}
	return strconv.ParseUint(list.Metadata.ResourceVersion, 10, 64)
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
