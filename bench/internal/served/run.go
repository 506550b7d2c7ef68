package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/report"
)

// Options select what to measure.
type Options struct {
	// Pods is the number of pods in the lists, Watchers the number of watches of all pods, and Shared the number of
	// watches that share a connection.
	Pods, Watchers, Shared int
	// Rate is the number of changes per second, and Last the duration of the changes.
	Rate    float64
	Last    time.Duration
	Hostile bool
	// Runs is the number of lists on each server, and of groups of gets.
	Runs int
	// Dir is for temporary files, and Command is printed in the table.
	Dir, Command string
}

// getsAtOnce is the number of gets that are measured as one group.
const getsAtOnce = 500

type bench struct {
	Options
	cluster  cluster.Cluster
	pods     load.Kind
	revision int
	out      io.Writer

	upstream, mirror *server
}

// Run measures kube-apiserver and larder sync --serve, and writes tables of medians, each with the ratio of Larder to
// kube-apiserver.
func Run(ctx context.Context, o Options, out, progress io.Writer) (err error) {
	c, err := cluster.StartReal(ctx, o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	b := &bench{Options: o, cluster: c, pods: load.KindOf("pods"), out: out}
	fmt.Fprintf(progress, "creating %d pods\n", o.Pods)
	if err := c.Load(ctx, b.pods, o.Pods); err != nil {
		return err
	}
	mirror, sync, err := startSync(ctx, c.Access(), o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sync.Stop()) }()
	b.mirror = mirror
	pid := c.(interface{ APIServerPID() int }).APIServerPID()
	if b.upstream, err = newServer("kube-apiserver", c.Access().Config(), pid); err != nil {
		return err
	}
	fmt.Fprintln(progress, "waiting for the mirror")
	if err := b.synced(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d pods, medians of %d (`%s`):\n\n", o.Pods, o.Runs, o.Command)
	fmt.Fprintln(progress, "watching")
	if err := b.watches(ctx); err != nil {
		return err
	}
	fmt.Fprintln(progress, "listing")
	if err := b.lists(ctx); err != nil {
		return err
	}
	return b.gets(ctx)
}

func (b *bench) servers() []*server { return []*server{b.upstream, b.mirror} }

// lists measures lists in each encoding on both servers, and writes a row for each encoding.
func (b *bench) lists(ctx context.Context) error {
	fmt.Fprint(b.out, "\n| list of all pods | bytes | kube-apiserver | Larder | time | processor time |\n"+
		"|---|---|---|---|---|---|\n")
	for _, l := range []struct {
		name, accept string
		gzip         bool
	}{
		{"protobuf", protobuf, false},
		{"protobuf, gzip", protobuf, true},
		{"JSON", "application/json", false},
		{"JSON, gzip", "application/json", true},
	} {
		took, used := make([][]float64, 2), make([][]float64, 2)
		var sizes [2]int64
		for range b.Runs {
			for i, s := range b.servers() {
				size, wall, cpu, err := s.list(ctx, l.accept, l.gzip)
				if err != nil {
					return fmt.Errorf("%s: list, %s: %w", s.name, l.name, err)
				}
				sizes[i] = size
				took[i], used[i] = append(took[i], wall.Seconds()), append(used[i], cpu.Seconds())
			}
		}
		row := fmt.Sprintf("| %s | %.0f MB, %.0f MB", l.name, float64(sizes[0])/1e6, float64(sizes[1])/1e6)
		var t, u [2]float64
		for i := range t {
			t[i], u[i] = report.Summarize(took[i]).Median, report.Summarize(used[i]).Median
			row += fmt.Sprintf(" | %.2f s, processor %.2f s", t[i], u[i])
		}
		fmt.Fprintf(b.out, "%s | %.2f× | %.2f× |\n", row, t[1]/t[0], u[1]/u[0])
	}
	return nil
}

func (b *bench) gets(ctx context.Context) error {
	fmt.Fprint(b.out, "\n| get of a pod, protobuf | kube-apiserver | Larder | ratio |\n|---|---|---|---|\n")
	took := make([][]float64, 2)
	for run := range b.Runs {
		for i, s := range b.servers() {
			for n := range getsAtOnce {
				number := (run*getsAtOnce + n) * 7919 % b.Pods
				path := "/api/v1/namespaces/" + load.Namespace(number) + "/pods/" + b.pods.ObjectName(number)
				start := time.Now()
				if _, err := s.get(ctx, path, protobuf, false); err != nil {
					return fmt.Errorf("%s: get: %w", s.name, err)
				}
				took[i] = append(took[i], time.Since(start).Seconds())
			}
		}
	}
	for _, p := range []float64{0.5, 0.99} {
		theirs, ours := quantile(took[0], p), quantile(took[1], p)
		fmt.Fprintf(b.out, "| p%.0f | %.2f ms | %.2f ms | %.2f× |\n", p*100, theirs*1e3, ours*1e3, ours/theirs)
	}
	return nil
}
