package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store/consumer"
)

type durableLog struct {
	mu       sync.Mutex
	received []consumer.Change // mu guards all fields
	resets   int
	last     time.Time
}

func (l *durableLog) change(_ context.Context, c consumer.Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received, l.last = append(l.received, c), time.Now()
	return nil
}

func (l *durableLog) reset(context.Context, consumer.ResetReason) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resets++
	return nil
}

// all returns the received changes in order as "+name" and "-name", the number of resets, and the time of the last
// change.
func (l *durableLog) all() (lines []string, resets int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.received {
		verb := "+"
		if c.Type == entry.Delete {
			verb = "-"
		}
		_, name, _ := cache.SplitMetaNamespaceKey(c.Key)
		lines = append(lines, verb+name)
	}
	return lines, l.resets, l.last
}

// durable runs an informer with a durable handler until the handler has synced. took is the time from the start to the
// last change.
func (f *file) durable(t *testing.T, src source) (lines []string, resets int, took time.Duration) {
	t.Helper()
	f.open(t)
	i, err := informer.New(src.lw, src.example, informer.Options{Store: f.Store, Identity: src.identity})
	if err != nil {
		t.Fatal(err)
	}
	log := &durableLog{}
	begun := time.Now()
	reg, err := i.Durable().Add("e2e", durable.Handler{OnChange: log.change, OnReset: log.reset})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { i.RunWithContext(ctx) })
	eventually(t, "the handler's sync", func() string {
		if !reg.HasSynced() {
			return fmt.Sprintf("%+v, %v", i.Status().Durable, i.Status().Err)
		}
		return ""
	})
	cancel()
	run.Wait()
	f.close(t)
	lines, resets, last := log.all()
	if last.IsZero() {
		last = begun
	}
	return lines, resets, last.Sub(begun)
}

// TestDurableHandler checks that after a restart a durable handler receives exactly the changes during its absence,
// deletions and re-creations included, for any number of objects (issue 5, test 1).
func TestDurableHandler(t *testing.T) {
	t.Parallel()
	sizes := []int{1000, 10_000}
	if soak {
		sizes = append(sizes, 100_000)
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) { testDurableHandler(t, n) })
	}
}

func testDurableHandler(t *testing.T, n int) {
	c := newCluster(t, shared)
	c.createConfigMaps(t, names("cm", 0, n), "old")
	f := newFile(t)
	src := typedSource(t, c.Config(t.Name()), "configmaps", c.ns, "", &corev1.ConfigMap{})
	lines, resets, _ := f.durable(t, src)
	if len(lines) != n || resets != 1 {
		t.Fatalf("at first it was told of %d changes, want all %d objects; %d resets", len(lines), n, resets)
	}
	want := c.changeWhileDown(t)
	lines, resets, took := f.durable(t, src)
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) || resets != 0 {
		t.Errorf("after the restart it was told of %q, want %q; %d resets", lines, want, resets)
	}
	t.Logf("%d objects: told of the last of %d changes %v after the start", n, len(want), took.Round(time.Millisecond))
	if lines, resets, _ = f.durable(t, src); len(lines) > 0 || resets > 0 {
		t.Errorf("nothing has changed, and it was told of %q; %d resets", lines, resets)
	}
}

// changeWhileDown updates 37 objects, deletes 5, and deletes and re-creates 3. It returns the changes that a handler
// must receive.
func (c *cluster) changeWhileDown(t *testing.T) (received []string) {
	t.Helper()
	changed, gone, again := names("cm", 100, 137), names("cm", 200, 205), names("cm", 300, 303)
	c.putConfigMaps(t, changed, "new")
	c.deleteConfigMaps(t, append(slices.Clone(gone), again...))
	c.createConfigMaps(t, again, "again")
	for _, name := range append(changed, again...) {
		received = append(received, "+"+name)
	}
	for _, name := range append(gone, again...) {
		received = append(received, "-"+name)
	}
	return received
}

func (c *cluster) createConfigMaps(t *testing.T, names []string, value string) {
	t.Helper()
	inParallel(t, names, func(ctx context.Context, name string) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
		_, err := c.client.CoreV1().ConfigMaps(c.ns).Create(ctx, cm, metav1.CreateOptions{})
		return err
	})
}

func (c *cluster) putConfigMaps(t *testing.T, names []string, value string) {
	t.Helper()
	inParallel(t, names, func(ctx context.Context, name string) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
		_, err := c.client.CoreV1().ConfigMaps(c.ns).Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
}

func (c *cluster) deleteConfigMaps(t *testing.T, names []string) {
	t.Helper()
	inParallel(t, names, func(ctx context.Context, name string) error {
		return c.client.CoreV1().ConfigMaps(c.ns).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

type durableFile struct {
	path string
	hold bool // if true, the handler's calls never return
}

func (d durableFile) change(ctx context.Context, c consumer.Change) error {
	f, err := os.OpenFile(d.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	verb := "+"
	if c.Type == entry.Delete {
		verb = "-"
	}
	if _, err := fmt.Fprintln(f, verb+c.Key); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if d.hold {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func linesOf(t *testing.T, path string) (lines []string) {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// TestDurableHandlerKilled checks that a durable handler receives a change twice if the process is killed before the
// acknowledgement is committed, and otherwise once (issue 5, test 1).
func TestDurableHandlerKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 3))
	f := newFile(t)
	log := filepath.Join(filepath.Dir(f.path), "told")
	config := childConfig{Store: f.path, Namespace: c.ns, Durable: log}
	received := func() []string { return linesOf(t, log) }
	committed := func(what string) *child {
		p := startChild(t, c.Config(t.Name()), config)
		p.waitFor(t, what, func(r childReport) bool { return r.Synced && r.DurableSynced && r.DurableBehind == 0 })
		return p
	}
	committed("the first objects").kill()
	if got := received(); len(got) != 3 {
		t.Fatalf("told of %q", got)
	}

	c.touchPods(t, []string{"p-00001"}, "x")
	config.DurableHold = true
	p := startChild(t, c.Config(t.Name()), config)
	p.eventually(t, "the delivery", func() string {
		if got := received(); len(got) != 4 {
			return strings.Join(got, " ")
		}
		return ""
	})
	p.kill()

	config.DurableHold = false
	committed("the delivery again").kill()
	change := "+" + c.ns + "/p-00001"
	if got := received(); len(got) != 5 || got[3] != change || got[4] != change {
		t.Fatalf("told of %q", got)
	}
	committed("nothing").kill()
	if got := received(); len(got) != 5 {
		t.Errorf("it was acknowledged and committed, and told again: %q", got)
	}
}
