package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFullDisk checks that an informer on a full disk says so in its status and continues to answer reads. With free
// space the file must catch up without loss.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 200))
	f := newFile(t)
	src := podSource(t, c.Config(t.Name()), c.ns)
	p := startChild(t, c.Config(t.Name()), childConfig{Store: f.path, Namespace: c.ns})
	p.waitFor(t, "the first list", func(r childReport) bool { return r.Synced && r.Objects == 200 })

	p.signal(t, syscall.SIGUSR1) // from now on, the file cannot grow
	big := names("big", 0, 220)
	c.createBigPods(t, big[:200])
	p.waitFor(t, "the error", func(r childReport) bool { return strings.Contains(r.Err, "no space") })
	c.touchPods(t, names("p", 0, 50), "while full")
	c.deletePods(t, names("p", 150, 200))
	c.createBigPods(t, big[200:])
	p.waitFor(t, "reads while the disk is full", func(r childReport) bool {
		return r.Listed >= 200 && r.Index == r.Listed && r.Objects == r.Listed
	})
	want := c.pods(t)
	p.waitFor(t, "changes in memory while the disk is full", func(r childReport) bool {
		return r.Err != "" && r.Objects == len(want) && r.Listed == len(want)
	})
	c.mark(t)
	p.signal(t, syscall.SIGUSR2)
	p.waitFor(t, "catching up", func(r childReport) bool {
		return r.Err == "" && r.Objects == len(want) &&
			r.Listed == len(want)
	})
	p.terminate(t)
	if problem := want.diff(f.read(t, src.identity, src.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
	if asked := c.asked(t, t.Name(), "pods"); len(asked.lists) > 0 {
		t.Errorf("catching up took lists: %v", asked.lists)
	}
}

// createBigPods creates pods of 100 KB, because bbolt grows a file by up to 16 MiB at a time.
func (c *cluster) createBigPods(t *testing.T, names []string) {
	t.Helper()
	inParallel(t, names, func(ctx context.Context, name string) error {
		p := pod(c.ns, name)
		p.Annotations = map[string]string{"big": strings.Repeat("x", 100<<10)}
		_, err := c.client.CoreV1().Pods(c.ns).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

func (p *child) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// limitOnSignal makes SIGUSR1 limit the size of files to the present size of the file at path, by RLIMIT_FSIZE. Writes
// beyond the limit fail with EFBIG. SIGUSR2 lifts the limit.
func limitOnSignal(path string) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	var wg sync.WaitGroup
	wg.Go(func() {
		for s := range signals {
			var limit syscall.Rlimit
			err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit)
			limit.Cur = limit.Max
			if fi, statErr := os.Stat(path); s == syscall.SIGUSR1 && statErr == nil {
				limit.Cur = uint64(fi.Size())
			}
			if err == nil {
				err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "RLIMIT_FSIZE:", err)
			}
		}
	})
	return func() { signal.Stop(signals); close(signals); wg.Wait() }
}
