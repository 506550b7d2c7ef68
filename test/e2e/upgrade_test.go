package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// releases are older versions of larder, oldest first, by their commits. Each is the last version with its file format.
// The test upgrades from them and rolls back to them.
var releases = []struct{ name, commit string }{
	{"before a store was served", "bf4dbe36"},
	{"before changes had their time", "85c2f28c"},
}

func build(t *testing.T, commit string) (path string) {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "tree.tar")
	if exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+"^{commit}").Run() != nil { // a shallow clone lacks the commit
		if out, err := exec.CommandContext(t.Context(), "git", "fetch", "--unshallow").CombinedOutput(); err != nil {
			t.Fatalf("the repository's history does not have %s: git fetch --unshallow: %v\n%s", commit, err, out)
		}
	}
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "git", "-C", "../..", "archive", "-o", archive, commit),
		exec.CommandContext(t.Context(), "tar", "-C", dir, "-xf", archive),
		exec.CommandContext(t.Context(), "go", "-C", dir, "build", "-ldflags=-s -w", "-o", "larder-before", "./cmd/larder"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building the program of before: %s: %v\n%s", cmd, err, out)
		}
	}
	return filepath.Join(dir, "larder-before")
}

// TestUpgradeAndRollback moves a store from an older version of larder to the current version, back, and forward again,
// while objects change. Each version is terminated or killed. Only the first start may list. Each version must reach
// the server's state with sealed objects, and the file must be valid. The current version must log all changes since
// its first start, by either version.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	of := releases
	if !soak {
		of = of[:1] // building each version takes a minute
	}
	for _, release := range of {
		t.Run(release.name, func(t *testing.T) {
			t.Parallel()
			now := newCommand(t, newCluster(t, shared))
			before := *now
			before.larder = build(t, release.commit)
			now.run("keygen", "store.key")
			now.createSecret(t)
			w := &rolled{command: now, cm: names("cm", 0, 60), changed: map[string]string{}}
			w.createConfigMaps(t, w.cm, "first")
			for n, run := range []struct {
				what   string
				of     *command
				killed bool
			}{
				{"the older program", &before, false},
				{"an upgrade", now, true},
				{"a rollback", &before, true},
				{"the second upgrade", now, false},
				{"the second rollback", &before, false},
				{"the last upgrade", now, false},
			} {
				w.mark(t)
				p := run.of.sync("store", "secrets", "--keep-changes", "1h", "--key-file", "store.key")
				run.of.live("store", p)
				w.holds(run.of, p, run.what)
				w.listed(run.what, n == 0)
				w.change()
				w.holds(run.of, p, run.what)
				if run.killed {
					p.kill()
				} else {
					p.terminate(t)
				}
				if n == 0 { // changes by the older version have no time
					w.changed = map[string]string{}
				}
				w.change()
			}
			w.mark(t)
			p := now.sync("store", "secrets", "--keep-changes", "1h", "--key-file", "store.key")
			w.holds(now, p, "the end")
			w.listed("the end", false)
			w.checkLog()
			p.terminate(t)
			now.run("check", "store.db", "--key-file", "store.key")
		})
	}
}

type rolled struct {
	*command
	cm      []string
	rounds  int
	changed map[string]string // kind of change by name, since a version that stores times ran
}

func (w *rolled) change() {
	w.rounds++
	value := fmt.Sprintf("round-%02d", w.rounds)
	w.putConfigMaps(w.t, w.cm[:10], value)
	w.deleteConfigMaps(w.t, w.cm[20+w.rounds:21+w.rounds])
	made := names(value, 0, 3)
	w.createConfigMaps(w.t, made, value)
	for _, name := range w.cm[:10] {
		w.changed[name] = "changed"
	}
	w.changed[w.cm[20+w.rounds]] = "removed"
	for _, name := range made {
		w.changed[name] = "added"
	}
}

func (w *rolled) holds(of *command, p *program, what string) {
	w.t.Helper()
	const pairs = `jsonpath={range .items[*]}{.metadata.name}={.data.k} {end}`
	p.eventually(w.t, what+" has what the server has", func() string {
		want, err := w.client.CoreV1().ConfigMaps(w.ns).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, cm := range want.Items {
			all = append(all, cm.Name+"="+cm.Data["k"])
		}
		slices.Sort(all)
		out, err := of.command("get", "configmaps", "-n", w.ns, "--from", "store.db", "-o", pairs).Output()
		got := strings.Fields(string(out))
		slices.Sort(got)
		if err != nil || !slices.Equal(got, all) {
			return fmt.Sprintf("%s %v; the server has %s", out, err, all)
		}
		out, err = of.command("get", "secrets", "-n", w.ns, "--from", "store.db", "-o", "name", "--key-file",
			"store.key").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "secret/") {
			return fmt.Sprintf("secrets: %s %v", out, err)
		}
		return ""
	})
}

// listed fails the test unless larder has listed ConfigMaps, or if should is false, unless larder has not. A list of
// metadata for comparison does not count.
func (w *rolled) listed(what string, should bool) {
	w.t.Helper()
	all, err := w.Requests("", w.since)
	must(w.t, err)
	var lists []string
	for _, r := range all {
		if r.Resource == "configmaps" && r.Namespace == w.ns && strings.HasPrefix(r.UserAgent, "larder/") &&
			(r.List() || r.Query.Get("sendInitialEvents") != "") {
			lists = append(lists, r.String())
		}
	}
	if should != (len(lists) > 0) {
		w.t.Errorf("%s has listed: %q", what, lists)
	}
}

// checkLog fails the test unless larder log prints each changed ConfigMap once.
func (w *rolled) checkLog() {
	w.t.Helper()
	logged := map[string]string{}
	decoder := json.NewDecoder(strings.NewReader(w.run("log", "store.db", "configmaps", "-o", "json")))
	for decoder.More() {
		var line struct{ Name, Change string }
		must(w.t, decoder.Decode(&line))
		if logged[line.Name] != "" {
			w.t.Errorf("%s is told twice", line.Name)
		}
		logged[line.Name] = line.Change
	}
	if !maps.Equal(logged, w.changed) {
		w.t.Errorf("log tells %v\n of %v", logged, w.changed)
	}
}
