package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/meter"
	"github.com/larder-dev/larder/reflector"
)

var badMinute = []condition{
	{name: "latency", lasts: 8 * time.Second, latency: 300 * time.Millisecond, jitter: 100 * time.Millisecond},
	{name: "56 kbit/s", lasts: 12 * time.Second, thin: true},
	{name: "a stall", lasts: 7 * time.Second, latency: 5 * time.Second},
	{name: "resets", lasts: 6 * time.Second, resets: 2 * time.Second},
	{name: "half-open", lasts: 6 * time.Second, mode: hanging},
	{name: "an outage", lasts: 5 * time.Second, mode: refusing},
	{name: "56 kbit/s, slow to close", lasts: 11 * time.Second, thin: true, slowClose: 2 * time.Second},
	{name: "fair", lasts: 5 * time.Second},
}

type linkRun struct {
	script []condition
	// restartBefore has the indexes of the conditions before which the API server restarts without its watch history. The
	// clients' lists then happen under that condition.
	restartBefore map[int]bool
}

// badTenMinutes returns badMinute five times in random order, each condition at twice its length. The API server
// restarts twice, before two of the periods of 56 kbit/s.
func badTenMinutes(random *rand.Rand) linkRun {
	r := linkRun{restartBefore: map[int]bool{}}
	for lap := range 5 {
		for _, n := range random.Perm(len(badMinute)) {
			c := badMinute[n]
			c.lasts *= 2
			if c.name == "56 kbit/s" && lap%2 == 1 {
				r.restartBefore[len(r.script)] = true
			}
			r.script = append(r.script, c)
		}
	}
	// A dead connection is noticed after 45 s. The backoff may then take 30 s.
	r.script = append(r.script, condition{name: "fair", lasts: time.Minute})
	return r
}

// TestLink runs Larder's informer beside client-go's on equally bad network links, while pods change. Both informers
// must end with the server's state. Larder must deliver each event once, and list nothing while the server has its
// history. LARDER_SOAK=1 extends the test to ten minutes (issue 5).
func TestLink(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	run, cp := linkRun{script: badMinute}, shared
	if soak {
		run, cp = badTenMinutes(random), ownControlPlane(t)
	}
	c := newCluster(t, cp)
	pods := names("p", 0, 200)
	c.createPods(t, pods)
	before := c.pods(t)
	ours, theirs := newLinked(t, c, t.Name()), newLinked(t, c, t.Name()+"/client-go")
	f := newFile(t)
	s := f.start(t, podSource(t, ours.config, c.ns))
	peer := startPlain(t, podSource(t, theirs.config, c.ns))
	s.converge(t, before)
	peer.converge(t, before)
	var recorded *truth
	if len(run.restartBefore) == 0 {
		recorded = watchTruth(t, c) // a watch of the shared server would end with the API server
	}

	c.mark(t)
	ours.begun, theirs.begun = ours.received.Bytes(), theirs.received.Bytes()
	load := startLinkLoad(t, c, random, pods, recorded == nil)
	run.do(t, c, ours.link, theirs.link)
	load.stop(t)
	want := c.pods(t)
	s.converge(t, want)
	peer.converge(t, want)
	t.Logf("%d writes, of which %d failed; received over the link:", load.writes, load.failed)
	ours.report(t, c)
	theirs.report(t, c)
	run.checkCost(t, s, ours, theirs)
	if recorded != nil {
		recorded.complete(t, want)
		recorded.expect(t, s.recorder, before)
		if asked := c.asked(t, ours.agent, "pods"); len(asked.lists) > 0 {
			t.Errorf("lists: %v", asked.lists)
		}
	}
	eventually(t, "telling the handler", func() string { return want.diff(s.recorder.state(t)) })
	s.stop(t)
	f.close(t)
	left := f.read(t, s.source.identity, s.source.example)
	if problem := want.diff(left.objects); problem != "" {
		t.Error("on disk:", problem)
	}
	if recorded != nil {
		recorded.mustEqual(t, left, "in the end")
	}
}

func (r *linkRun) do(t *testing.T, c *cluster, links ...*thinLink) {
	t.Helper()
	for n, step := range r.script {
		for _, l := range links {
			l.apply(t, step)
		}
		ends := time.Now().Add(step.lasts)
		if r.restartBefore[n] {
			c.restartAPIServer(t)
		}
		for step.resets > 0 && time.Until(ends) > step.resets {
			time.Sleep(step.resets)
			for _, l := range links {
				l.reset(t)
			}
		}
		time.Sleep(time.Until(ends))
	}
}

// checkCost limits the lists, requests and bytes of Larder's informer in the run.
func (r *linkRun) checkCost(t *testing.T, s *subject, ours, theirs *linked) {
	t.Helper()
	st := s.Status().Reflector
	t.Logf("Larder: %d watches, %d resumes, relists %v; the API server was restarted %d times", st.Watches, st.Resumes,
		st.Relists, len(r.restartBefore))
	// The server keeps about 75 s of history, and these conditions can delay a client by more.
	for reason, n := range st.Relists {
		if reason != reflector.ReasonExpired {
			t.Errorf("%d relists for %s", n, reason)
		}
	}
	// With so few pods, the look-ups of a resume cost as much as a list. So the ratio of bytes varies: 0.92 and 1.05 in
	// two runs of ten minutes. The bound is for repeated lists or objects.
	ratio := float64(ours.bytes()) / float64(theirs.bytes())
	t.Logf("Larder received %.2f of what client-go did", ratio)
	if soak && ratio > 1.5 {
		t.Error("Larder received much more")
	}
}

type linked struct {
	agent    string
	link     *thinLink
	config   *rest.Config
	received meter.Received
	begun    int64
}

func newLinked(t *testing.T, c *cluster, agent string) *linked {
	t.Helper()
	l := &linked{agent: agent, link: newThinLink(t, c.Address())}
	l.config = l.received.Count(l.link.through(c.Config(agent)))
	return l
}

func (l *linked) bytes() int64 { return l.received.Bytes() - l.begun }

// report logs the client's received bytes and requests. client-go lists by a watch with sendInitialEvents.
func (l *linked) report(t *testing.T, c *cluster) {
	t.Helper()
	asked := c.asked(t, l.agent, "pods")
	whole := len(asked.lists)
	for _, r := range asked.watches {
		if r.Query.Get("sendInitialEvents") == "true" {
			whole++
		}
	}
	t.Logf("%-20s %4d kB, %d whole lists, %d watches, %d single objects", l.agent, l.bytes()/1000, whole,
		len(asked.watches), asked.probes+asked.lookups)
}

type plain struct{ cache.SharedIndexInformer }

func startPlain(t *testing.T, src source) plain {
	t.Helper()
	p := plain{cache.NewSharedIndexInformer(src.lw, src.example, 0, cache.Indexers{})}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return p
}

func (p plain) converge(t *testing.T, want objects) {
	t.Helper()
	eventually(t, "converging of client-go", func() string {
		held := objects{}
		for _, obj := range p.GetStore().List() {
			held.put(t, obj.(runtime.Object))
		}
		return want.diff(held)
	})
}
