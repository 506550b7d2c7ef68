package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const testPods = 200

func TestStoryOnTheEmbeddedServer(t *testing.T) {
	cluster, err := StartEmbedded()
	must(t, err)
	defer cluster.Close()
	var out bytes.Buffer
	report, err := Run(t.Context(), cluster, Options{Pods: testPods, Out: &out, Dir: t.TempDir()})
	t.Logf("\n%s", out.String())
	must(t, err)
	checkReport(t, report)
	checkOutput(t, out.String(), report)
	if left := cluster.server.List(corev1.SchemeGroupVersion.WithResource("pods")); len(left) > 0 {
		t.Errorf("%d pods were left behind", len(left))
	}
}

func checkReport(t *testing.T, r Report) {
	t.Helper()
	if len(r.Steps) != 4 {
		t.Fatalf("%d steps, not 4", len(r.Steps))
	}
	cold, restart, offline, back := r.Steps[0], r.Steps[1], r.Steps[2], r.Steps[3]
	for _, step := range r.Steps {
		if !step.Larder.Synced || step.Larder.Took <= 0 || step.Larder.Objects < testPods {
			t.Errorf("%s: Larder measured %+v", step.Name, step.Larder)
		}
	}
	for _, step := range []Step{cold, restart, back} {
		if d := step.Default; !d.Synced || d.Requests.WatchLists != 1 || d.Requests.Lists != 0 {
			t.Errorf("%s: client-go's default measured %+v", step.Name, d)
		}
		if l := step.List; !l.Synced || l.Requests.Lists != 1 || l.Requests.WatchLists != 0 {
			t.Errorf("%s: client-go with LIST measured %+v", step.Name, l)
		}
	}
	if got := cold.Larder.Requests; got.Lists != 1 || got.WatchLists != 0 || len(cold.Created) != testPods {
		t.Errorf("cold start: %+v, %d pods created", got, len(cold.Created))
	}
	// The look-up of a changed object may be faster than the event of the change on the watch. Then a second probe reads
	// the resourceVersion that the watch must reach.
	if got := restart.Larder.Requests; got.WholeState() != 0 || got.Probes < 1 || got.Probes > 2 || got.Watches == 0 {
		t.Errorf("restart: %+v", got)
	}
	if restart.Larder.Received*5 > restart.Default.Received || restart.Larder.Received == 0 {
		t.Errorf("restart: Larder received %d, client-go %d", restart.Larder.Received, restart.Default.Received)
	}
	for _, step := range []Step{restart, back} {
		if len(step.Updated) != 5 || len(step.Created) != 3 || len(step.Deleted) != 2 || step.Replayed < testPods {
			t.Errorf("%s: told %+v", step.Name, step)
		}
	}
	if offline.Larder.Received != 0 || offline.Age <= 0 || offline.Default.Synced || offline.Default.Objects != 0 {
		t.Errorf("without the server: %+v", offline)
	}
	if back.Reason != "Expired" || back.Larder.Requests.Lists != 1 {
		t.Errorf("server back: %+v", back)
	}
}

func checkOutput(t *testing.T, out string, r Report) {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
			t.Errorf("a line ends with blanks: %q", line)
		}
	}
	for _, want := range []string{
		"Larder on embedded API server: 200 pods",
		"1. Cold start. Nothing is on disk.",
		"2. Larder was stopped. Meanwhile 5 pods were changed, 3 created, 2 deleted. Larder starts again.",
		"0 lists, 1 watch",
		"3. Larder was stopped. Meanwhile 5 pods were changed, 3 created, 2 deleted; then the API server is stopped too.",
		"All 201 pods are served from disk",
		"4. The API server is back. Its restart has lost the watch history.",
		"(reason: Expired)",
		"1 WatchList", "never",
		nameOf(r.Steps[1].Deleted[0]) + " " + nameOf(r.Steps[1].Deleted[1]),
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
}

type failing struct {
	*Embedded
	stop     error
	requests func(Requests) Requests
}

func (f *failing) Stop(ctx context.Context) error { return errors.Join(f.stop, f.Embedded.Stop(ctx)) }

func (f *failing) Requests(ctx context.Context, userAgent string) (Requests, error) {
	r, err := f.Embedded.Requests(ctx, userAgent)
	if f.requests != nil {
		r = f.requests(r)
	}
	return r, err
}

// TestStoryCleansUp checks that a demo that fails early removes its namespaces and files, even without its server.
func TestStoryCleansUp(t *testing.T) {
	errStop := errors.New("the server does not want to stop")
	for name, c := range map[string]struct {
		cluster failing
		want    error
	}{
		"no LIST at the cold start": {failing{requests: func(Requests) Requests { return Requests{} }}, ErrClaim},
		"a LIST at the restart": {failing{requests: func(r Requests) Requests {
			r.Lists, r.Pages = r.Lists+1, r.Pages+1
			return r
		}}, ErrClaim},
		"stop": {failing{stop: errStop}, errStop},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := StartEmbedded()
			must(t, err)
			defer cluster.Close()
			c.cluster.Embedded = cluster
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			if _, err := Run(t.Context(), &c.cluster, Options{Pods: minPods}); !errors.Is(err, c.want) {
				t.Errorf("the story ended with %v, not %v", err, c.want)
			}
			if left := cluster.server.List(corev1.SchemeGroupVersion.WithResource("namespaces")); len(left) != 2 {
				t.Errorf("%d namespaces are left, not 2", len(left))
			}
			entries, err := os.ReadDir(dir)
			must(t, err)
			if len(entries) > 0 {
				t.Errorf("files are left: %v", entries)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	if _, err := Run(t.Context(), &Embedded{}, Options{Pods: 3}); err == nil {
		t.Error("three pods are too few")
	}
}
