package informer_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// childEnv is the environment variable that tells a child process of a test what to do.
const childEnv = "LARDER_DIFFERENTIAL_CHILD"

// TestDifferentialCrash compares how programs with our and with client-go's informer crash: by a handler's panic with
// utilruntime.ReallyCrash on, and by a modified object with KUBE_CACHE_MUTATION_DETECTOR, which is read at the start of
// the process.
func TestDifferentialCrash(t *testing.T) {
	if what := os.Getenv(childEnv); what != "" {
		crash(t, what)
		return
	}
	for what, want := range map[string]string{
		"panic":  "panic: the handler panics on a/1",
		"mutate": "panic: cache *v1.Pod modified",
	} {
		for _, who := range []string{"ours", "client-go"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestDifferentialCrash$") //nolint:gosec // this very program
			cmd.Env = append(os.Environ(), childEnv+"="+what+" "+who, "KUBE_CACHE_MUTATION_DETECTOR=true")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s, %s: ended with %v, without %q:\n%s", who, what, err, want, out)
			}
		}
	}
}

func TestDifferentialDetector(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		surviveHandlers(t)
		for seed := range uint64(3) {
			s := generate(seed)
			// The mutation detector is slow, so steps with many changes are left out.
			s.ops = slices.DeleteFunc(s.ops, func(o op) bool { return o.do == "flood" })
			if fails, _ := s.run(t, t.TempDir(), nil); len(fails) > 0 {
				t.Errorf("%v%s", s, strings.Join(fails, "\n"))
			}
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDifferentialDetector$") //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), childEnv+"=detector", "KUBE_CACHE_MUTATION_DETECTOR=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func crash(t *testing.T, what string) {
	what, who, _ := strings.Cut(what, " ")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		f := newFront(w)
		w.fronts = [2]*front{f, newFront(w)}
		s := &side{name: who, c: config{transform: "none", pageSize: 500}, w: w, f: f}
		if err := s.open(nil); err != nil {
			t.Fatal(err)
		}
		if err := s.add(handlerSpec{kind: "full", how: "plain", panics: what == "panic"}); err != nil {
			t.Fatal(err)
		}
		if what == "mutate" {
			if _, err := s.inf.AddEventHandler(mutating{}); err != nil {
				t.Fatal(err)
			}
		}
		w.write("a/1", "1"+panics)
		s.start()
		time.Sleep(time.Minute)
		s.cancel()
		<-s.done
	})
}

type mutating struct{}

func (mutating) OnAdd(obj any, _ bool) { obj.(*corev1.Pod).Labels["value"] = "changed" }
func (mutating) OnUpdate(_, _ any)     {}
func (mutating) OnDelete(any)          {}
