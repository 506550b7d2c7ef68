package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// watcherCount is the number of watching clients. The test changes changedKeys objects in changedNamespaces namespaces,
// in all at least leastChanges times, until the clients have received leastEvents events.
const (
	watcherCount      = 200
	changedKeys       = 300
	changedNamespaces = 4
	leastChanges      = 500
	leastEvents       = watcherCount * 100
)

// colors are the values of the label by which clients select objects.
var colors = []string{"red", "green", "blue"}

// TestWatchers runs 200 clients that watch larder sync --serve. Meanwhile objects change at random, larder is killed,
// and the API server, etcd's history and the network are disturbed. checkStory compares the messages to each client
// with etcd's changes.
func TestWatchers(t *testing.T) {
	t.Parallel()
	lasts := 40 * time.Second
	if soak {
		lasts = 20 * time.Minute
	}
	random := newRandom(t)
	m := startMirror(t)
	truth := recordChanges(t, m.cp)
	changing := startChanging(t, m.cp, rand.New(rand.NewPCG(random.Uint64(), 1)))
	m.start(t)
	m.follows(t)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := make([]*watchClient, watcherCount)
	var watching sync.WaitGroup
	for i := range all {
		all[i] = newWatchClient(t, m.served, i, random.Uint64())
		watching.Go(func() { all[i].run(ctx) })
	}
	deadline := time.Now().Add(lasts)
	few := func() bool { // a slow machine needs more time
		events := int64(0)
		for _, c := range all {
			events += c.events.Load()
		}
		return changing.changes.Load() < leastChanges || events < leastEvents
	}
	for (time.Now().Before(deadline) || few()) && !t.Failed() {
		m.disturb(t, random)
	}
	if err := m.link.set(passing); err != nil {
		t.Fatal(err)
	}
	last := changing.stop(t)
	t.Logf("%d changes up to resourceVersion %d; larder was killed %d times", changing.changes.Load(), last, m.kills)
	for _, c := range all {
		within(t, 2*time.Minute, "client "+c.spec.String(), func() string {
			if reached := c.reached.Load(); reached < last {
				return fmt.Sprintf("it has heard of everything up to %d, want %d", reached, last)
			}
			return ""
		})
	}
	cancel()
	watching.Wait()
	m.program.terminate(t)
	truth.await(t, last)

	var observed, lists, resumed int
	for _, c := range all {
		found := checkStory(c.spec, c.story, truth.changes)
		if len(found.problems) > 0 {
			t.Errorf("client %s: %s\nits story ends:\n%s", c.spec, found.problems[0], c.story.tail(30))
		}
		observed, lists, resumed = observed+found.events, lists+found.lists, resumed+found.resumed
	}
	t.Logf("%d events were told, after %d lists, on watches that were resumed %d times", observed, lists, resumed)
	if observed < leastEvents || resumed < watcherCount {
		t.Errorf("%d events on watches that were resumed %d times are too few to show anything", observed, resumed)
	}
	upstream := m.listed(t)
	t.Logf("larder has listed %d times, and lost its place %d times", upstream, m.losses)
	if upstream > 1+m.losses {
		t.Errorf("larder has listed %d times, want %d at most: it must not depend on clients, nor on kills", upstream,
			1+m.losses)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := controlplane.Listen()
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

type servedMirror struct {
	cp      *controlplane.ControlPlane
	cluster *cluster
	link    *network
	larder  string
	args    []string
	dir     string
	served  string
	program *program

	kills  int
	losses int // lists that larder needed: history was lost while it was down, or before it had committed
	// compacted is the revision before which etcd has no history.
	compacted int64
}

func startMirror(t *testing.T) *servedMirror {
	t.Helper()
	// Without a watch cache for ConfigMaps, their history is lost as soon as etcd is compacted.
	cp := ownControlPlane(t, "--watch-cache-sizes=configmaps#0")
	m := &servedMirror{cp: cp, cluster: newCluster(t, cp), link: newNetwork(t, cp.Address()), dir: t.TempDir()}
	m.larder = buildLarder(t, m.dir)
	m.cluster.mark(t)
	upstream := m.cluster.kubeconfig(t, "", m.dir)
	m.served = filepath.Join(m.dir, "served.kubeconfig")
	address := freeAddress(t)
	m.args = []string{
		"sync", "configmaps", "--kubeconfig", upstream, "--server", "https://" + m.link.addr, "--store",
		filepath.Join(m.dir, "mirror.db"), "--serve", address, "--serve-kubeconfig", m.served,
	}
	return m
}

func (m *servedMirror) start(t *testing.T) {
	t.Helper()
	m.program = startProgram(t, exec.Command(m.larder, m.args...), filepath.Join(m.dir, "sync.log"),
		func([]byte) {})
}

// follows waits until larder serves the API server's current state, and returns the resourceVersion of that state.
func (m *servedMirror) follows(t *testing.T) (got int64) {
	t.Helper()
	now, err := newestRV(t.Context(), m.cp.Config(writer))
	if err != nil {
		t.Fatal(err)
	}
	m.program.eventually(t, "an answer of larder", func() string {
		config, err := clientcmd.BuildConfigFromFlags("", m.served)
		if err != nil {
			return err.Error()
		}
		if got, err = newestRV(t.Context(), config); err != nil {
			return err.Error()
		}
		if got < now {
			return fmt.Sprintf("it is at %d, the API server at %d", got, now)
		}
		return ""
	})
	return got
}

func newestRV(ctx context.Context, config *rest.Config) (int64, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(list.ResourceVersion, 10, 64)
}

func (m *servedMirror) listed(t *testing.T) (n int) {
	t.Helper()
	all, err := m.cp.Requests("", m.cluster.since)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		initial := r.Watch() && r.Query.Get("sendInitialEvents") == "true"
		if strings.HasPrefix(r.UserAgent, "larder/") && r.Resource == "configmaps" && (r.List() || initial) {
			n++
		}
	}
	return n
}

// committed returns the resourceVersion in larder's file. larder must not be running.
func (m *servedMirror) committed(t *testing.T) int64 {
	t.Helper()
	store := filepath.Join(m.dir, "mirror.db")
	out, err := exec.CommandContext(t.Context(), m.larder, "status", store, "-o", "json").Output()
	if err != nil {
		t.Fatalf("larder status: %v", err)
	}
	var status struct {
		Collections []struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(out, &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Collections) == 0 || status.Collections[0].ResourceVersion == "" {
		return 0
	}
	rv, err := strconv.ParseInt(status.Collections[0].ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return rv
}

// disturb makes one random disturbance, such as a kill or a compaction, and then waits for clients to react.
func (m *servedMirror) disturb(t *testing.T, random *rand.Rand) {
	t.Helper()
	set := func(mode mode) {
		if err := m.link.set(mode); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	kill := func() {
		m.program.kill()
		m.kills++
		if m.committed(t) <= m.compacted {
			m.losses++
		}
	}
	compact := func() {
		if err := m.cp.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		if m.compacted, err = newestRV(t.Context(), m.cp.Config(writer)); err != nil {
			t.Fatal(err)
		}
	}
	what := random.IntN(9)
	switch what {
	case 0, 1:
		kill()
		m.start(t)
	case 2: // kills larder while the API server is away
		set(refusing)
		kill()
		m.start(t)
		wait(2 * time.Second)
		set(passing)
	case 3:
		m.program.terminate(t)
		m.start(t)
	case 4:
		set(resetting)
		set(passing)
	case 5:
		set(hanging)
		wait(3 * time.Second)
		set(passing)
	case 6: // compacts etcd during larder's watch, which does not affect the watch
		if at := m.follows(t); at > m.compacted {
			if err := m.cp.CompactTo(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			m.compacted = at
		}
	case 7: // compacts etcd while larder has no watch, so that larder must list
		set(refusing)
		wait(2 * time.Second)
		compact()
		set(passing)
		m.losses++
	case 8:
		if err := m.cp.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("disturbed in way %d", what)
	time.Sleep(time.Second)
	wait(2 * time.Second)
}

type changer struct {
	client  kubernetes.Interface
	random  *rand.Rand
	tries   int
	changes atomic.Int64 // number of attempts that changed an object
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func startChanging(t *testing.T, cp *controlplane.ControlPlane, random *rand.Rand) *changer {
	t.Helper()
	cfg := cp.Config(writer)
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &changer{client: client, random: random, cancel: cancel}
	for i := range changedNamespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: changedNamespace(i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.done.Go(func() {
		for ctx.Err() == nil {
			if c.change(ctx) == nil { // fails while the API server is away
				c.changes.Add(1)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(random.Int64N(int64(30 * time.Millisecond)))):
			}
		}
	})
	t.Cleanup(func() { cancel(); c.done.Wait() })
	return c
}

func changedNamespace(i int) string { return "changed-" + strconv.Itoa(i%changedNamespaces) }

func changedName(i int) string { return "object-" + strconv.Itoa(i) }

func (c *changer) change(ctx context.Context) error {
	i := c.random.IntN(changedKeys)
	configMaps := c.client.CoreV1().ConfigMaps(changedNamespace(i))
	c.tries++
	n := strconv.Itoa(c.tries)
	if c.random.IntN(5) == 0 {
		return configMaps.Delete(ctx, changedName(i), metav1.DeleteOptions{})
	}
	color := colors[c.random.IntN(len(colors))]
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"color":%q},"annotations":{"n":%q}}}`, color, n)
	_, err := configMaps.Patch(ctx, changedName(i), types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: changedName(i), Labels: map[string]string{"color": color}, Annotations: map[string]string{"n": n},
		}}, metav1.CreateOptions{})
	}
	return err
}

// stop makes one last change, and returns the resourceVersion of that change.
func (c *changer) stop(t *testing.T) (last int64) {
	t.Helper()
	c.cancel()
	c.done.Wait()
	made, err := c.client.CoreV1().ConfigMaps(changedNamespace(0)).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "the-last"},
	}, metav1.CreateOptions{})
	if err == nil {
		last, err = strconv.ParseInt(made.ResourceVersion, 10, 64)
	}
	if err != nil {
		t.Fatal(err)
	}
	return last
}

type etcdChanges struct {
	mu      sync.Mutex
	changes []etcdChange // mu guards changes until await returns
	err     error
}

func recordChanges(t *testing.T, cp *controlplane.ControlPlane) *etcdChanges {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &etcdChanges{}
	var done sync.WaitGroup
	done.Go(func() {
		err := cp.Changes(ctx, "/registry/configmaps/", func(made controlplane.Change) {
			next, err := newChange(made)
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.changes = append(c.changes, next); err != nil {
				c.err = err
			}
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil && ctx.Err() == nil {
			c.err = err
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return c
}

// await waits until all changes of etcd up to a revision are collected.
func (c *etcdChanges) await(t *testing.T, revision int64) {
	t.Helper()
	eventually(t, "the changes of etcd", func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.err != nil:
			t.Fatal(c.err)
		case len(c.changes) == 0 || c.changes[len(c.changes)-1].rv < revision:
			return fmt.Sprintf("%d are there, up to %d not", len(c.changes), revision)
		}
		return ""
	})
}
