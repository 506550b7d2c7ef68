package e2e

import (
	"fmt"
	"testing"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// TestOfflineStart checks that a controller-runtime manager and a typed controller start without an API server, and
// reconcile the stored state. Once the server is reachable they must catch up: without a list if the server still has
// its watch history, and otherwise with one list in pages per collection.
func TestOfflineStart(t *testing.T) {
	t.Parallel()
	cp := ownControlPlane(t)
	bin := buildExamples(t)
	for _, x := range []struct {
		program string
		prepare func(*testing.T, *example)
		away    mode // the proxy's behaviour during the start without the server
	}{{"typed", typedExample, refusing}, {"manager", managerExample, hanging}} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, history kept %t", x.program, kept), func(t *testing.T) {
				e := &example{cluster: newCluster(t, cp), bin: bin, program: x.program, network: newNetwork(t, cp.Address())}
				x.prepare(t, e)
				e.verifyOffline(t, kept, x.away)
			})
		}
	}
}

// verifyOffline runs and stops the example, changes the cluster, and starts the example without a connection. Unless
// kept is true, the server loses its watch history before the connection returns.
func (e *example) verifyOffline(t *testing.T, kept bool, away mode) {
	e.dir = t.TempDir()
	online := e.start(t, "online")
	online.eventually(t, "the first run's work", e.unfinished)
	var stored readable
	online.eventually(t, "the last events", func() string {
		stored = e.read(t)
		return stored.reconciledAt(online.all())
	})
	online.terminate(t) // commits all changes to the file

	e.mark(t)
	e.meanwhile()
	want := e.read(t)
	if err := e.network.set(away); err != nil {
		t.Fatal(err)
	}
	if !kept {
		e.StopAPIServer()
	}

	e.args = append(e.args, "--offline")
	offline := e.start(t, "offline")
	offline.eventually(t, "reconciles without a server", func() string { return stored.reconciledAt(offline.all()) })
	offline.onlyStored(t, stored)

	if !kept {
		if err := e.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.network.set(passing); err != nil {
		t.Fatal(err)
	}
	offline.eventually(t, "the second run's work", e.unfinished)
	offline.eventually(t, "reconciles", func() string { return want.reconciled(offline.all()) })
	if e.seesDeletes {
		offline.eventually(t, "deletes", func() string { return want.missingDeletion(stored, offline.all()) })
	}
	offline.terminate(t)
	if kept {
		e.onlyResumed(t, offline.agent)
	} else {
		e.listedOnce(t, offline.agent)
	}
	e.checkFile(t)
	if e.afterwards != nil {
		e.afterwards()
	}
}

func (want readable) reconciledAt(lines []exampleLine) string {
	done := map[exampleLine]bool{}
	for _, l := range lines {
		done[l] = true
	}
	for reconciler, versions := range want {
		for key, rv := range versions {
			if !done[exampleLine{"reconcile", reconciler, key, rv}] {
				return fmt.Sprintf("%s has not reconciled %s at %s", reconciler, key, rv)
			}
		}
	}
	return ""
}

func (r *exampleRun) onlyStored(t *testing.T, stored readable) {
	t.Helper()
	for _, l := range r.all() {
		if l.Reconciler != "" && stored[l.Reconciler][l.Key] != l.ResourceVersion {
			t.Errorf("%s read %s at %q, which is not what is stored", l.Reconciler, l.Key, l.ResourceVersion)
		}
	}
}

// listedOnce checks that a run listed each collection once, in pages and from etcd, and then watched from the list's
// resourceVersion.
func (e *example) listedOnce(t *testing.T, agent string) {
	t.Helper()
	for _, gvr := range e.watched {
		asked, begun := e.asked(t, agent, gvr.Resource), map[string][]*controlplane.Request{}
		for _, l := range asked.lists {
			if l.Code != 200 {
				continue
			}
			if l.Query.Get("continue") == "" {
				begun[l.Namespace] = append(begun[l.Namespace], l)
			}
			if l.Query.Get("limit") == "" || l.Query.Get("resourceVersion") != "" {
				t.Errorf("a list that is no page: %s", l)
			}
		}
		for _, ns := range e.everywhere() {
			if len(begun[ns]) != 1 {
				t.Errorf("lists of %s in namespace %q that were begun: %v", gvr.Resource, ns, begun[ns])
			}
		}
		if len(begun) != len(e.everywhere()) {
			t.Errorf("lists elsewhere: %v", begun)
		}
		for _, w := range asked.watches {
			if rv := w.Query.Get("resourceVersion"); rv == "" || rv == "0" || w.Query.Get("sendInitialEvents") != "" {
				t.Errorf("a watch that is none from where the store stands: %s", w)
			}
		}
	}
}
