package e2e

import (
	"testing"
)

// TestRestartResumesWithoutAList checks that a restart without changes sends no list, and watches from the stored
// resourceVersion, according to the server's audit log and metrics.
func TestRestartResumesWithoutAList(t *testing.T) {
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 500))
	f := newFile(t)

	first, before := f.run(t, podSource(t, c.Config(t.Name()+"/cold"), c.ns))
	cold := c.asked(t, t.Name()+"/cold", "pods")
	if len(cold.lists) != 1 {
		t.Errorf("the cold start made %d lists, want 1: %v", len(cold.lists), cold.lists)
	}
	want := c.pods(t)
	if problem := want.diff(before.objects); problem != "" || !before.Complete {
		t.Fatalf("stored (complete %t): %s", before.Complete, problem)
	}
	first.onlyAdds(t)

	c.mark(t)
	lists, err := c.RequestTotal(t.Context(), "pods", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	agent := t.Name() + "/restart"
	s := f.start(t, podSource(t, c.Config(agent), c.ns))
	s.sync(t)
	if rest := s.replayed(t, want); len(rest) > 0 {
		t.Errorf("nothing has changed, but handlers were told %v", rest)
	}
	s.converge(t, want)
	s.stop(t)
	f.close(t)

	asked := c.asked(t, agent, "pods")
	if len(asked.lists) > 0 {
		t.Errorf("lists: %v", asked.lists)
	}
	if n := len(asked.watches); n == 0 || n > 2 {
		t.Errorf("%d watches, want one and the one that follows the drain: %v", n, asked.watches)
	} else if rv := asked.watches[0].Query.Get("resourceVersion"); rv != before.ResourceVersion {
		t.Errorf("the watch began at RV %s, stored was %s", rv, before.ResourceVersion)
	}
	after, err := c.RequestTotal(t.Context(), "pods", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	if got := after - lists; got != asked.probes+asked.lookups+asked.compares || asked.compares > 1 {
		t.Errorf("the server counted %d LISTs; probes %d, look-ups of one object %d, and compares of metadata %d", got,
			asked.probes, asked.lookups, asked.compares)
	}
	if st := s.Status(); st.Reflector.Resumes == 0 || st.Reflector.Lists != 0 || len(st.Reflector.Relists) > 0 {
		t.Errorf("status: %+v", st.Reflector)
	}
	if left := f.read(t, s.source.identity, s.source.example); left.NextSeq != before.NextSeq {
		t.Errorf("nothing has changed, but %d records were written", left.NextSeq-before.NextSeq)
	}
}

// TestChangesWhileDown checks that a restarted informer delivers exactly the changes during its absence.
func TestChangesWhileDown(t *testing.T) {
	const n = 500
	c := newCluster(t, shared)
	c.createPods(t, names("stays", 0, 200))
	c.createPods(t, names("changes", 0, n))
	c.createPods(t, names("goes", 0, n))
	f := newFile(t)
	_, before := f.run(t, podSource(t, c.Config(t.Name()+"/cold"), c.ns))

	truth := watchTruth(t, c)
	c.createPods(t, names("comes", 0, n))
	c.touchPods(t, names("changes", 0, n), "down")
	c.deletePods(t, names("goes", 0, n))
	want := c.pods(t)
	truth.complete(t, want)

	c.mark(t)
	agent := t.Name() + "/restart"
	s := f.start(t, podSource(t, c.Config(agent), c.ns))
	s.sync(t)
	// The informer has synced, so its store must equal the server's list at once.
	if problem := want.diff(s.held(t)); problem != "" {
		t.Error("after HasSynced:", problem)
	}
	// The server sends a forced deletion of a pod as an update and a delete. So there may be more updates than changes.
	truth.expect(t, s.recorder, before.objects)
	verbs := map[string]int{}
	for _, change := range s.all(t)[len(before.objects):] {
		verbs[change.verb]++
	}
	if verbs["add"] != n || verbs["update"] < n || verbs["delete"] != n {
		t.Errorf("told: %v", verbs)
	}
	s.stop(t)
	f.close(t)
	if problem := want.diff(f.read(t, s.source.identity, s.source.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
	if asked := c.asked(t, agent, "pods"); len(asked.lists) > 0 {
		t.Errorf("lists: %v", asked.lists)
	}
}
