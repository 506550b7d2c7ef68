package e2e

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-dev/larder/informer"
)

// TestOutage checks three kinds of network outage. Reads must continue during the outage. After the outage the informer
// must list nothing and miss no change. TestRefusedWatch of package reflector covers watches that the server refuses.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := 8 * time.Second
	if soak {
		outage = time.Minute
	}
	for name, m := range map[string]mode{"refused": refusing, "reset": resetting, "half-open": hanging} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testOutage(t, m, outage)
		})
	}
}

func testOutage(t *testing.T, m mode, outage time.Duration) {
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 100))
	n := newNetwork(t, c.Address())
	agent := t.Name()
	f := newFile(t)
	s := f.start(t, podSource(t, n.through(c.Config(agent)), c.ns))
	s.sync(t)
	before := c.pods(t)
	s.converge(t, before)

	eventually(t, "being live", func() string {
		if st := s.Status(); st.Source != informer.Live {
			return "status says " + string(st.Source)
		}
		return ""
	})
	sources := followSource(s.Informer)
	truth := watchTruth(t, c)
	if err := n.set(m); err != nil {
		t.Fatal(err)
	}
	c.mark(t)
	down := time.Now()
	c.createPods(t, names("new", 0, 20))
	c.touchPods(t, names("p", 0, 20), "outage")
	c.deletePods(t, names("p", 80, 100))
	want := c.pods(t)
	eventually(t, "noticing", func() string {
		if st := s.Status(); st.Err == nil || st.Source != informer.FromDisk {
			return "status says " + string(st.Source) + ", " + errText(st.Err)
		}
		return ""
	})
	if problem := before.diff(s.held(t)); problem != "" {
		t.Error("during the outage:", problem)
	}
	time.Sleep(outage - time.Since(down))

	if err := n.set(passing); err != nil {
		t.Fatal(err)
	}
	s.converge(t, want)
	truth.complete(t, want)
	truth.expect(t, s.recorder, before)
	eventually(t, "recovering", func() string {
		if st := s.Status(); st.Err != nil || st.Source != informer.Live {
			return "status says " + string(st.Source) + ", " + errText(st.Err)
		}
		return ""
	})
	eventually(t, "being told of it", func() string {
		if got := sources(); got != "live disk live" {
			return "the subscriber was told " + got
		}
		return ""
	})
	if asked := c.asked(t, agent, "pods"); len(asked.lists) > 0 || len(asked.watches) == 0 {
		t.Errorf("lists %v, watches %v", asked.lists, asked.watches)
	}
	if st := s.Status().Reflector; len(st.Relists) > 0 {
		t.Errorf("relists: %v", st.Relists)
	}
}

func followSource(i *informer.Informer) (summary func() string) {
	var mu sync.Mutex
	var sources []string
	i.SubscribeSource(func(c informer.SourceChange) {
		mu.Lock()
		defer mu.Unlock()
		sources = append(sources, string(c.To))
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(sources, " ")
	}
}
