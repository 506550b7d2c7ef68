package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/store"
)

// example is a program of examples/ with its expected behaviour on a cluster.
type example struct {
	*cluster
	bin, program string
	args         []string
	namespaces   []string
	watched      []schema.GroupVersionResource
	// reconcilers maps the name of each reconciler to the resource of the object that it reads first. The reconciler's log
	// lines have that object's resourceVersion.
	reconcilers map[string]schema.GroupVersionResource
	// seesDeletes is true if the program also reacts to the deletion of objects to which no other object refers.
	seesDeletes bool
	unfinished  func() string
	meanwhile   func()
	afterwards  func()
	network     *network

	dir string
}

var examplesOnce = sync.OnceValues(func() (dir string, err error) {
	dir = filepath.Join(shared.Dir(), "examples") + string(filepath.Separator)
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "./...")
	build.Dir = filepath.Join("..", "..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the examples: %w\n%s", err, out)
	}
	return dir, nil
})

func buildExamples(t *testing.T) string {
	t.Helper()
	dir, err := examplesOnce()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// verify runs the example, kills it, and runs it again. It checks the log and the requests of the program, the cluster
// and the file.
func (e *example) verify(t *testing.T) {
	e.dir = t.TempDir()
	cold := e.start(t, "cold")
	cold.eventually(t, "the first run's work", e.unfinished)
	for _, gvr := range e.watched {
		if n := len(e.asked(t, cold.agent, gvr.Resource).lists); n != max(1, len(e.namespaces)) {
			t.Errorf("the cold start made %d lists of %s", n, gvr.Resource)
		}
	}
	before := e.read(t)
	cold.kill()

	e.meanwhile()
	want := e.read(t)

	again := e.start(t, "again")
	again.eventually(t, "the second run's work", e.unfinished)
	again.eventually(t, "reconciles", func() string { return want.reconciled(again.all()) })
	if e.seesDeletes {
		again.eventually(t, "deletes", func() string { return want.missingDeletion(before, again.all()) })
	}
	again.terminate(t)
	want.neverStale(t, again.all())
	e.onlyResumed(t, again.agent)
	e.checkFile(t)
	if e.afterwards != nil {
		e.afterwards()
	}
}

// onlyResumed checks that a run of the program listed nothing, watched from a resourceVersion, and sent requests for
// its own namespaces only.
func (e *example) onlyResumed(t *testing.T, agent string) {
	t.Helper()
	for _, gvr := range e.watched {
		asked := e.asked(t, agent, gvr.Resource)
		if len(asked.lists) > 0 {
			t.Errorf("lists of %s after the restart: %v", gvr.Resource, asked.lists)
		}
		if len(asked.watches) == 0 {
			t.Errorf("no watch of %s after the restart", gvr.Resource)
		}
		for _, w := range asked.watches {
			if rv := w.Query.Get("resourceVersion"); rv == "" || rv == "0" || w.Query.Get("sendInitialEvents") != "" {
				t.Errorf("a watch that is no resume: %s", w)
			}
			if len(e.namespaces) > 0 && !slices.Contains(e.namespaces, w.Namespace) {
				t.Errorf("a watch elsewhere: %s", w)
			}
		}
	}
}

func (e *example) checkFile(t *testing.T) {
	t.Helper()
	s, err := store.Open(e.file().path, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := s.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v %q", err, report.Problems)
	}
	infos, err := s.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := len(e.watched) * max(1, len(e.namespaces)); len(infos) != want {
		t.Errorf("%d collections, want %d", len(infos), want)
	}
	for _, info := range infos {
		if !info.Complete || info.Objects == 0 {
			t.Errorf("%s: complete %t, %d objects", info.Identity, info.Complete, info.Objects)
		}
	}
}

func (e *example) file() *file { return &file{path: filepath.Join(e.dir, "larder.db")} }

type exampleRun struct {
	*program
	agent string

	mu    sync.Mutex
	lines []exampleLine // mu guards lines
}

type exampleLine struct {
	Msg, Reconciler, Key, ResourceVersion string
}

// start runs the program. life is part of the program's file name, and so of the user agent, which distinguishes the
// runs in the audit log.
func (e *example) start(t *testing.T, life string) *exampleRun {
	t.Helper()
	name := "example-" + e.program + "-" + life
	_, version, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
	cmd := exec.Command(filepath.Join(e.bin, e.program))
	cmd.Args = append([]string{name, "--kubeconfig", e.kubeconfig(t), "--store", e.file().path}, e.args...)
	r := &exampleRun{agent: name + "/" + version}
	r.program = startProgram(t, cmd, filepath.Join(e.dir, name+".stderr"), func(line []byte) {
		var l exampleLine
		if json.Unmarshal(line, &l) == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lines = append(r.lines, l)
		}
	})
	return r
}

func (e *example) kubeconfig(t *testing.T) string {
	t.Helper()
	cfg := e.Config("")
	if e.network != nil {
		cfg = e.network.through(cfg)
	}
	path := filepath.Join(e.dir, "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"e2e": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"e2e": {Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e", AuthInfo: "e2e"}},
		CurrentContext: "e2e",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *exampleRun) all() []exampleLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// readable has the resourceVersions of the objects that each reconciler may read, by reconciler and key.
type readable map[string]map[string]string

func (e *example) read(t *testing.T) readable {
	t.Helper()
	client, err := dynamic.NewForConfig(e.Config(writer))
	if err != nil {
		t.Fatal(err)
	}
	out := readable{}
	for reconciler, gvr := range e.reconcilers {
		out[reconciler] = map[string]string{}
		for _, ns := range e.everywhere() {
			list, err := client.Resource(gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			found := objects{}
			for i := range list.Items {
				found.put(t, &list.Items[i])
			}
			maps.Copy(out[reconciler], found.versions())
		}
		if len(out[reconciler]) == 0 {
			t.Fatalf("there is no %s to be reconciled", gvr.Resource)
		}
	}
	return out
}

func (e *example) everywhere() []string {
	if len(e.namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return e.namespaces
}

// reconciled returns a message about an object that no reconciler has handled, or "".
func (want readable) reconciled(lines []exampleLine) string {
	done := map[[2]string]bool{}
	for _, l := range lines {
		done[[2]string{l.Reconciler, l.Key}] = l.ResourceVersion != ""
	}
	for reconciler, versions := range want {
		for key := range versions {
			if !done[[2]string{reconciler, key}] {
				return fmt.Sprintf("%s has not reconciled %s", reconciler, key)
			}
		}
	}
	return ""
}

// missingDeletion returns a message about a deleted object of before whose deletion the program has not logged, or "".
func (want readable) missingDeletion(before readable, lines []exampleLine) string {
	for reconciler, versions := range before {
		for key := range versions {
			gone := exampleLine{Msg: "gone", Reconciler: reconciler, Key: key}
			if _, there := want[reconciler][key]; !there && !slices.Contains(lines, gone) {
				return fmt.Sprintf("%s was not told that %s is gone", reconciler, key)
			}
		}
	}
	return ""
}

// neverStale checks that no reconcile read a deleted object, or a version older than the server's version at the start
// of the program.
func (want readable) neverStale(t *testing.T, lines []exampleLine) {
	t.Helper()
	for _, l := range lines {
		if l.Reconciler == "" {
			continue
		}
		rv, there := want[l.Reconciler][l.Key]
		switch {
		case !there && l.ResourceVersion != "":
			t.Errorf("%s read %s at %s, which was gone or none of its business", l.Reconciler, l.Key, l.ResourceVersion)
		case there && l.ResourceVersion == "":
			t.Errorf("%s did not find %s, which stood at %s", l.Reconciler, l.Key, rv)
		case there && newer(t, rv, l.ResourceVersion):
			t.Errorf("%s read %s at %s, which stood at %s", l.Reconciler, l.Key, l.ResourceVersion, rv)
		}
	}
}
