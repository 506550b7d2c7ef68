package seeded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"aead.dev/minisign"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/snapshot"
)

// Fleet is a number of stores, each with all pods of a server, and the number of these pods.
type Fleet struct{ Stores, Pods int }

// Options select what to measure.
type Options struct {
	// Fleets are measured in turn, with increasing numbers of pods.
	Fleets []Fleet
	// Changed is the number of pods that change between the snapshot and the starts.
	Changed int
	// Runs is the number of starts for each fleet and each way of starting (list, seed). The ways take turns.
	Runs     int
	Embedded bool
	// Profile is an absolute directory for profiles of the processes. Default: no profiles.
	Profile string
	// Dir is for temporary files, and Command is printed in the tables.
	Dir, Command string
}

// The idle server is observed after each case, for as long as the case took, within these bounds. Its garbage collector
// runs every two minutes.
const (
	leastIdle = 10 * time.Second
	mostIdle  = 2 * time.Minute
)

// unchecked stops kube-apiserver from comparing its cache with etcd about every six minutes. With 100,000 pods a
// comparison uses as much processor time as a list, and would be charged to the running case.
const unchecked = "--feature-gates=DetectCacheInconsistency=false"

var ways = []string{"listed", "from a seed"}

type bench struct {
	Options
	cluster  cluster.Cluster
	pods     load.Kind
	revision int
	progress io.Writer
	// The seeds are signed, because plain HTTP serves them.
	public  minisign.PublicKey
	private minisign.PrivateKey
}

type measured struct {
	started
	asked cluster.Asked
	// cpu is the server's processor time until all stores had started. idle is its use over the same duration without
	// requests. Both are in seconds.
	cpu, idle float64
}

// Run measures the fleets, and writes a table for each.
func Run(ctx context.Context, o Options, out, progress io.Writer) (err error) {
	b := &bench{Options: o, pods: load.KindOf("pods"), progress: progress}
	if b.public, b.private, err = minisign.GenerateKey(rand.Reader); err != nil {
		return err
	}
	if o.Embedded {
		b.cluster, err = cluster.StartEmbedded(o.Fleets[len(o.Fleets)-1].Pods)
	} else {
		b.cluster, err = cluster.StartReal(ctx, o.Dir, unchecked)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cluster.Close()) }()
	fmt.Fprintf(out, "First starts of Larder, %s, residency None, no handler (`%s`)\n", b.cluster.Version(), o.Command)
	for _, f := range o.Fleets {
		if err := b.fleet(ctx, f, out); err != nil {
			return fmt.Errorf("%d stores of %d pods: %w", f.Stores, f.Pods, err)
		}
	}
	return nil
}

func (b *bench) fleet(ctx context.Context, f Fleet, out io.Writer) (err error) {
	fmt.Fprintf(b.progress, "creating %d pods\n", f.Pods)
	if err := b.cluster.Load(ctx, b.pods, f.Pods); err != nil {
		return err
	}
	saved, err := b.save(ctx)
	if err != nil {
		return err
	}
	if err := b.change(ctx, f); err != nil {
		return err
	}
	url, stop, err := serve(filepath.Dir(saved))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	results := make([][]measured, len(ways))
	for run := range b.Runs {
		for i := range ways {
			way := (run + i) % len(ways) // alternate which way of starting is measured first
			c := work{Fleet: f, Access: b.cluster.Access(), Dir: filepath.Join(b.Dir, "stores")}
			if way == 1 {
				c.Seed, c.SignedBy = url+filepath.Base(saved), b.public
			}
			if b.Profile != "" {
				c.Profile = filepath.Join(b.Profile, fmt.Sprintf("seeds-%dx%d-%d", f.Stores, f.Pods, way))
			}
			m, err := b.measure(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[way], err)
			}
			fmt.Fprintf(b.progress, "%d × %d pods, %s: synced after %.2f s, server CPU %.2f s\n", f.Stores, f.Pods,
				ways[way], latest(m.Synced), m.cpu-m.idle)
			results[way] = append(results[way], m)
		}
	}
	fmt.Fprintf(out, "\n%d × %d pods at once, medians of %d; the seed lacks %d changes:\n\n", f.Stores, f.Pods, b.Runs,
		min(b.Changed, f.Pods))
	return writeTable(out, results)
}

// save saves a snapshot of a store that has listed all pods.
func (b *bench) save(ctx context.Context) (path string, err error) {
	dir := filepath.Join(b.Dir, "seed")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "cluster.larder")
	file := filepath.Join(b.Dir, "mirror.db")
	r, err := subject.Start(ctx, subject.Options{
		Spec: subject.Spec{Library: subject.Larder, Residency: subject.None}, Kind: b.pods,
		Config: b.cluster.Access().Config(), File: file,
	})
	if err != nil {
		return "", err
	}
	if _, err = r.AwaitSync(ctx); err == nil {
		var saved snapshot.Saved
		saved, err = snapshot.SaveStore(ctx, r.Store, path, snapshot.SaveOptions{SigningKey: &b.private})
		fmt.Fprintf(b.progress, "the seed has %d pods and %d bytes\n", saved.Objects, saved.Size)
	}
	return path, errors.Join(err, r.Stop(), os.Remove(file))
}

func (b *bench) change(ctx context.Context, f Fleet) error {
	n := min(b.Changed, f.Pods)
	if n == 0 {
		return nil
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i * f.Pods / n
	}
	b.revision++
	return b.cluster.Change(ctx, b.pods, numbers, b.revision)
}

// serve serves a directory over HTTP on loopback, with support for Range requests.
func serve(dir string) (url string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	stop = func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return "http://" + l.Addr().String() + "/", stop, nil
}

// measure runs a case in a separate process, and then measures how much CPU the API server uses when idle.
func (b *bench) measure(ctx context.Context, c work) (m measured, err error) {
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	if err := cluster.Quiesce(ctx, b.cluster); err != nil {
		return m, err
	}
	if _, err := b.cluster.Asked(ctx, b.pods); err != nil {
		return m, err
	}
	start := time.Now()
	before, counted := b.cluster.CPU()
	var took time.Duration
	m.started, err = runProcess(ctx, c, func() {
		took = time.Since(start)
		after, _ := b.cluster.CPU()
		m.cpu = (after - before).Seconds()
	})
	if err != nil {
		return m, err
	}
	if m.asked, err = b.cluster.Asked(ctx, b.pods); err != nil || !counted {
		return m, err
	}
	share, err := b.idle(ctx, min(max(took, leastIdle), mostIdle))
	m.idle = share * took.Seconds()
	return m, err
}

// idle returns the share of a core that the server uses without requests, measured over about the given duration.
func (b *bench) idle(ctx context.Context, last time.Duration) (share float64, err error) {
	if err := cluster.Quiesce(ctx, b.cluster); err != nil {
		return 0, err
	}
	start := time.Now()
	before, _ := b.cluster.CPU()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(last):
	}
	after, _ := b.cluster.CPU()
	return (after - before).Seconds() / time.Since(start).Seconds(), nil
}
