package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A rolling update: the new process is ready while the old one has the file, says who has it, and takes it over when the old one ends. Killed, it leaves a
// file from which the next one resumes.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("stays", 0, 200))
	c.createPods(t, names("changes", 0, 50))
	c.createPods(t, names("goes", 0, 50))
	f := newFile(t)
	old := startChild(t, c.Config(t.Name()+"/old"), childConfig{Store: f.path, Namespace: c.ns})
	old.waitFor(t, "the old process", func(r childReport) bool { return r.Synced && r.Persistent })

	next := startChild(t, c.Config(t.Name()+"/new"), childConfig{Store: f.path, Namespace: c.ns, MemoryWhileLocked: true})
	holder := fmt.Sprintf("process %d ", old.cmd.Process.Pid)
	next.waitFor(t, "the new process", func(r childReport) bool {
		return r.Synced && !r.Persistent && strings.Contains(r.NotPersistent, holder) && r.Objects == 300
	})
	c.touchPods(t, names("changes", 0, 50), "in memory")
	c.deletePods(t, names("goes", 0, 40))
	next.waitFor(t, "the deletes", func(r childReport) bool { return r.Objects == 260 })
	old.terminate(t)
	c.createPods(t, names("comes", 0, 20))
	next.waitFor(t, "the file", func(r childReport) bool { return r.Persistent && r.Err == "" })
	c.deletePods(t, names("goes", 40, 50))
	next.waitFor(t, "the last deletes", func(r childReport) bool { return r.Objects == 270 && r.Listed == 270 && r.Index == 270 })
	time.Sleep(2 * time.Second) // the commit
	next.kill()

	resumesFrom(t, c, f)
}

// resumesFrom starts an informer on the file, and checks that it lists nothing and holds what the server has.
func resumesFrom(t *testing.T, c *cluster, f *file) {
	t.Helper()
	agent := t.Name() + "/third"
	s := f.start(t, podSource(t, c.Config(agent), c.ns))
	s.sync(t)
	s.converge(t, c.pods(t))
	s.stop(t)
	f.close(t)
	if asked := c.asked(t, agent, "pods"); len(asked.lists) > 0 {
		t.Errorf("lists: %v", asked.lists)
	}
	if problem := c.pods(t).diff(f.read(t, s.source.identity, s.source.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
}

// A rolling update while the API server can not be reached: the new process serves what the old one has left, as soon as that is there, and resumes from it.
func TestRollingUpdateOffline(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 100))
	f := newFile(t)
	old := startChild(t, c.Config(t.Name()+"/old"), childConfig{Store: f.path, Namespace: c.ns})
	old.waitFor(t, "the old process", func(r childReport) bool { return r.Synced })
	n := newNetwork(t, c.Address())
	if err := n.set(refusing); err != nil {
		t.Fatal(err)
	}
	next := startChild(t, n.through(c.Config(t.Name()+"/new")), childConfig{Store: f.path, Namespace: c.ns, MemoryWhileLocked: true})
	next.waitFor(t, "the new process", func(r childReport) bool { return !r.Persistent && r.Objects == 0 && r.Err != "" })
	old.terminate(t)
	next.waitFor(t, "the file", func(r childReport) bool { return r.Persistent && r.Objects == 100 && r.Listed == 100 && !r.Synced })
	c.touchPods(t, names("p", 0, 10), "offline")
	c.deletePods(t, names("p", 10, 20))
	if err := n.set(passing); err != nil {
		t.Fatal(err)
	}
	next.waitFor(t, "the server", func(r childReport) bool { return r.Synced && r.Objects == 90 })
	if asked := c.asked(t, t.Name()+"/new", "pods"); len(asked.lists) > 0 {
		t.Errorf("lists: %v", asked.lists)
	}
	time.Sleep(2 * time.Second) // the commit
	next.kill()
	resumesFrom(t, c, f)
}
