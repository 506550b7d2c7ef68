package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

type idleMirror struct {
	larder, dir string
	kubeconfig  string
	server      string
	args        []string
}

func newIdleMirror(t *testing.T, kubeconfig, server string, args ...string) *idleMirror {
	t.Helper()
	m := &idleMirror{dir: t.TempDir(), kubeconfig: kubeconfig, server: server, args: args}
	m.larder = buildLarder(t, m.dir)
	return m
}

func ofCluster(t *testing.T, c *cluster, args ...string) *idleMirror {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, c.ControlPlane, kubeconfig)
	return newIdleMirror(t, kubeconfig, c.Address(), args...)
}

func (m *idleMirror) store() string { return filepath.Join(m.dir, "idle.db") }

// start starts the mirror behind a network proxy, and waits until all collections are live. The mirror stores no
// schemas, because its first run may end before it has read all of them.
func (m *idleMirror) start(t *testing.T, name string) (*program, *network) {
	t.Helper()
	n := newNetwork(t, m.server)
	args := append([]string{"sync", "--all", "--schemas=false", "--store", m.store(), "--kubeconfig", m.kubeconfig,
		"--server", "https://" + n.addr}, m.args...)
	p := startProgram(t, exec.Command(m.larder, args...), filepath.Join(m.dir, name+".log"), func([]byte) {})
	m.live(t)
	return p, n
}

type usage struct {
	connections int
	received    int64
}

func (a usage) String() string {
	return fmt.Sprintf("%d connections, %d bytes", a.connections, a.received)
}

// run starts the mirror, cuts its connections, waits until all collections are live again, and stops the mirror. It
// returns the usage of the start and of the reconnect.
func (m *idleMirror) run(t *testing.T, name string) (start, reconnect usage) {
	t.Helper()
	p, n := m.start(t, name)
	start.connections, start.received = n.counted()
	before := atRest(t, n)
	if err := n.set(holding); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "notice that the connections are lost", func() string {
		if exec.Command(m.larder, "wait", "--for", "live", "--timeout", "100ms", m.store()).Run() == nil {
			return "it says live"
		}
		return ""
	})
	if err := n.set(passing); err != nil {
		t.Fatal(err)
	}
	m.live(t)
	reconnect.connections, reconnect.received = n.counted()
	reconnect.connections -= before.connections
	reconnect.received -= before.received
	p.terminate(t)
	t.Logf("%s: %v; reconnect: %v", name, start, reconnect)
	return start, reconnect
}

// atRest waits until the mirror receives little more than bookmarks, and returns the usage until then. The mirror reads
// the definitions of custom resources after their lists. If it were stopped earlier, its next start would have to read
// the missing definitions.
func atRest(t *testing.T, n *network) (now usage) {
	t.Helper()
	const bookmarks = 8 << 10 // bytes of bookmarks in a second, for hundreds of resources
	within(t, time.Minute, "have all definitions", func() string {
		before := now
		time.Sleep(time.Second)
		now.connections, now.received = n.counted()
		if more := now.received - before.received; before == (usage{}) || more > bookmarks {
			return fmt.Sprintf("%d bytes more", more)
		}
		return ""
	})
	return now
}

func (m *idleMirror) live(t *testing.T) {
	t.Helper()
	within(t, 5*time.Minute, "larder wait", func() string {
		out, err := exec.Command(m.larder, "wait", "--for", "live", "--timeout", "1m", m.store()).CombinedOutput()
		if err != nil {
			return string(bytes.TrimSpace(out))
		}
		return ""
	})
}

func (a usage) cheap(t *testing.T, what string, connections int, received int64) {
	t.Helper()
	if a.connections > connections || a.received > received {
		t.Errorf("a %s took %v, want %v at most", what, a, usage{connections, received})
	}
}

// idleCluster starts a cluster with about 500 objects, most of them ConfigMaps.
func idleCluster(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, ownControlPlane(t))
	for n := range 350 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: fmt.Sprintf("idle-%03d", n)},
			Data: map[string]string{"key": "value"}}
		if _, err := c.client.CoreV1().ConfigMaps(c.ns).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestRestartOfAnIdleCluster limits the cost of a restart and of a reconnect of larder sync --all with few changes: one
// connection for some sixty resources, and few bytes for five hundred objects (issue 38, A.2). The bytes include the
// index of schemas, 11 KiB, which kube-apiserver sends without an ETag.
func TestRestartOfAnIdleCluster(t *testing.T) {
	c := idleCluster(t)
	m := ofCluster(t, c)
	m.run(t, "first start")
	start, reconnect := m.run(t, "restart")
	start.cheap(t, "restart", 1, 112<<10)
	reconnect.cheap(t, "reconnect", 1, 64<<10)
}

// TestRestartOfManyResources limits the cost of a restart and of a reconnect for many empty custom resources: a hundred
// watches share a connection.
func TestRestartOfManyResources(t *testing.T) {
	resources := 150
	if soak {
		resources = 600
	}
	c := newCluster(t, ownControlPlane(t))
	client, err := dynamic.NewForConfig(c.Config(writer))
	if err != nil {
		t.Fatal(err)
	}
	for n := range resources {
		define(t, client, fmt.Sprintf("many%04ds", n), fmt.Sprintf("Many%04d", n))
	}
	m := ofCluster(t, c)
	m.run(t, "first start")
	start, reconnect := m.run(t, "restart")
	connections := (resources + 60 + 99) / 100
	start.cheap(t, "restart", connections, int64(112<<10+resources*1500))
	reconnect.cheap(t, "reconnect", connections, int64(64<<10+resources*500))
}

// TestRestartOfAMirrorsAgent limits the cost of a restart and of a reconnect for a mirror of a mirror, over HTTP/2.
func TestRestartOfAMirrorsAgent(t *testing.T) {
	address := freeAddress(t)
	served := filepath.Join(t.TempDir(), "served.kubeconfig")
	mirror, _ := ofCluster(t, idleCluster(t), "--serve", address, "--serve-kubeconfig", served).start(t, "mirror")
	agent := newIdleMirror(t, served, address)
	agent.run(t, "first start")
	start, reconnect := agent.run(t, "restart")
	start.cheap(t, "restart", 1, 100<<10)
	reconnect.cheap(t, "reconnect", 1, 64<<10)
	mirror.terminate(t)
}
