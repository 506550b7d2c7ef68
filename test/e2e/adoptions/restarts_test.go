package adoptions

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

const rounds = 6

const patience = 2 * time.Minute

type scenario struct {
	// args and env are added to the arguments and environment for kubeconfig and store.
	args, env []string
	// once are arguments with which the program exits when its work is done, as in a CronJob. Without them the program
	// never exits.
	once []string
	// change creates, changes and deletes objects while the program is up or down. It is called once per round.
	change    func(round int)
	checkWork func() error
}

// TestRestarts kills each program at random moments with SIGKILL. After each restart the program must react to the
// changes during its absence. With Larder a restart must list no held resource, and without Larder all of them.
func TestRestarts(t *testing.T) {
	onlyLong(t)
	random := newRandom(t)
	for _, a := range adoptions {
		t.Run(a.name, func(t *testing.T) {
			stock, ours := a.copies(t)
			w := newWorld(t, stock)
			t.Run("without Larder", func(t *testing.T) {
				p := &subject{adoption: a, path: a.build(t, stock), world: w.in(t)}
				for resource, asked := range p.restarts(t, random, 1) {
					if asked.lists == 0 {
						t.Errorf("%s are not listed: the control shows nothing", resource)
					}
				}
			})
			t.Run("with Larder", func(t *testing.T) {
				store := filepath.Join(t.TempDir(), "store.db")
				p := &subject{adoption: a, path: a.build(t, ours), args: []string{"--store", store}, world: w.in(t)}
				for resource, asked := range p.restarts(t, random, rounds) {
					if asked.lists != 0 {
						t.Errorf("%s are listed after a restart:\n%s", resource, strings.Join(asked.log, "\n"))
					}
					if asked.watches == 0 {
						t.Errorf("%s are not watched", resource)
					}
				}
			})
		})
	}
}

type subject struct {
	adoption
	path string
	args []string
	*world
}

type asked struct {
	lists, watches int
	log            []string
}

// restarts runs the program until its work is done. In each round it kills the program, changes objects, and runs the
// program again. It returns the requests for held resources since the first kill.
func (p *subject) restarts(t *testing.T, random *rand.Rand, rounds int) map[string]*asked {
	t.Helper()
	s := p.scenario(p.world)
	s.change(0)
	running := p.start(t, s)
	p.eventually(t, "the work is done", s.checkWork, running)
	running.Kill()
	mark, err := server.Mark()
	if err != nil {
		t.Fatal(err)
	}
	for round := 1; round <= rounds; round++ {
		s.change(2*round - 1)
		running = p.start(t, s)
		if random.IntN(2) == 0 {
			p.eventually(t, fmt.Sprintf("the work of round %d is done", round), s.checkWork, running)
		}
		s.change(2 * round)
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		if err := running.Exited(); err != nil {
			t.Fatal(err)
		}
		running.Kill()
	}
	s.change(2*rounds + 1)
	running = p.start(t, s)
	p.eventually(t, "the work of the last round is done", s.checkWork, running)
	running.Kill()
	if s.once != nil {
		s.change(2*rounds + 3)
		p.runOnce(t, s)
	}
	return p.asked(t, mark)
}

func (p *subject) runOnce(t *testing.T, s scenario) {
	t.Helper()
	s.args = s.once
	running := p.start(t, s)
	for deadline := time.Now().Add(patience); running.Exited() == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not end\n%s", p.name, running.Log())
		}
	}
	if err := s.checkWork(); err != nil {
		t.Fatalf("%s has ended: %v\n%s", p.name, err, running.Log())
	}
}

func (p *subject) start(t *testing.T, s scenario) *controlplane.Process {
	t.Helper()
	kubeconfig := filepath.Join(p.logs, "kubeconfig")
	if err := served.WriteKubeconfig(kubeconfig, server.Config("")); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"--kubeconfig", kubeconfig}, p.args, s.args)
	log := filepath.Join(p.logs, p.name+"-"+p.namespace+".log")
	running, err := controlplane.StartProcess(p.name, log, s.env, p.path, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Kill)
	return running
}

// asked returns the program's requests since an offset in the audit log, by resource. A watch with initial events
// counts as a list.
func (p *subject) asked(t *testing.T, mark int64) map[string]*asked {
	t.Helper()
	requests, err := server.Requests("", mark)
	if err != nil {
		t.Fatal(err)
	}
	all, others := map[string]*asked{}, map[string]int{}
	for _, resource := range p.held {
		all[resource] = &asked{}
	}
	for _, r := range requests {
		if !strings.HasPrefix(r.UserAgent, p.name+"/") && r.UserAgent != p.name {
			continue
		}
		a := all[r.Resource]
		if a == nil {
			if r.List() {
				others[r.Path]++
			}
			continue
		}
		a.log = append(a.log, r.String())
		switch {
		case r.List(), r.Watch() && r.Query.Get("sendInitialEvents") == "true":
			a.lists++
		case r.Watch():
			a.watches++
		}
	}
	for _, resource := range p.held {
		t.Logf("%s: %d lists, %d watches", resource, all[resource].lists, all[resource].watches)
	}
	for _, path := range slices.Sorted(maps.Keys(others)) {
		t.Logf("beside them: %d lists of %s", others[path], path)
	}
	return all
}

func (p *subject) eventually(t *testing.T, what string, check func() error, running *controlplane.Process) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if exited := running.Exited(); exited != nil {
			t.Fatalf("%s: %v; %v", what, err, exited)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v\n%s", what, err, running.Log())
		}
	}
}

// newRandom returns a random source with the seed in LARDER_E2E_SEED, or a seed from the clock. It logs the seed.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("LARDER_E2E_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("LARDER_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}
