package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSeed checks that a sync without a store starts from a snapshot at a URL with credentials. The sync must send no
// list, neither for all ConfigMaps nor for one namespace, and end with the API server's state.
func TestSeed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ownControlPlane(t))
	dir := t.TempDir()
	larder := buildLarder(t, dir)
	cm := names("cm", 0, 300)
	c.createConfigMaps(t, cm, "old")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), larder, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("larder %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	store := func(name string) string { return filepath.Join(dir, name+".db") }
	sync := func(name string, args ...string) *program {
		t.Helper()
		args = append([]string{"sync", "configmaps", "--store", store(name), "--kubeconfig",
			c.kubeconfig(t, "", t.TempDir())}, args...)
		p := startProgram(t, exec.Command(larder, args...), filepath.Join(dir, name+".log"), func([]byte) {})
		p.eventually(t, name+" is live", func() string {
			out, err := exec.CommandContext(t.Context(), larder, "status", store(name), "-o", "json").Output()
			if err != nil {
				return err.Error()
			}
			var status struct {
				Collections []struct{ Live struct{ Source string } }
			}
			if err := json.Unmarshal(out, &status); err != nil {
				return err.Error()
			}
			if len(status.Collections) == 0 || status.Collections[0].Live.Source != "live" {
				return string(out)
			}
			return ""
		})
		return p
	}
	sync("first").terminate(t)
	saved := filepath.Join(dir, "seed.larder")
	key := filepath.Join(dir, "sign.key")
	public := strings.TrimSpace(run("keygen", "--signing", key))
	run("snapshot", "save", saved, "--from", store("first"), "--sign-key", key)
	c.putConfigMaps(t, cm[:20], "new")
	c.deleteConfigMaps(t, cm[100:110])
	c.createConfigMaps(t, names("later", 0, 5), "new")

	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "hidden" || r.URL.RawQuery != "signature=hidden" {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		http.ServeFile(w, r, saved)
	}))
	defer files.Close()
	url := strings.Replace(files.URL, "http://", "http://me:hidden@", 1) + "/seed.larder?signature=hidden"
	for name, scope := range map[string][]string{"all": nil, "namespace": {"-n", c.ns}} {
		c.mark(t)
		p := sync(name, append(scope, "--seed", url, "--seed-key", public)...)
		want := map[string]string{}
		for _, line := range strings.Fields(run("get", "configmaps", "-n", c.ns, "--from", store(name), "-o",
			`jsonpath={range .items[*]}{.metadata.name}={.data.k}{"\n"}{end}`)) {
			n, value, _ := strings.Cut(line, "=")
			want[n] = value
		}
		p.terminate(t)
		changed := 0
		for _, value := range want {
			if value == "new" {
				changed++
			}
		}
		if len(want) < 295 || changed != 25 {
			t.Errorf("%s: %d ConfigMaps, %d of them new", name, len(want), changed)
		}
		log := p.stderr()
		if strings.Contains(log, "hidden") || !strings.Contains(log, "begun with "+files.URL+"/seed.larder") {
			t.Errorf("%s: %s", name, log)
		}
		all, err := c.Requests("", c.since)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if strings.HasPrefix(r.UserAgent, "larder/") && r.Resource == "configmaps" && (r.List() || r.Compare() ||
				r.Watch() && r.Query.Get("sendInitialEvents") != "") {
				t.Errorf("%s: it has asked for %s", name, fmt.Sprint(r))
			}
		}
	}
}

// TestSeedKilled kills a larder sync while it reads a seed. The store must then have either a complete collection or
// one marked as incomplete. The next sync must end with the API server's state.
func TestSeedKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	dir := t.TempDir()
	larder := buildLarder(t, dir)
	cm := names("cm", 0, 2000)
	c.createConfigMaps(t, cm, "old")
	args := func(name string, more ...string) []string {
		return append([]string{"sync", "configmaps", "-n", c.ns, "--store", filepath.Join(dir, name+".db"), "--kubeconfig",
			filepath.Join(dir, "kubeconfig")}, more...)
	}
	c.kubeconfig(t, "", dir)
	type collection struct {
		Complete bool
		Objects  int
		Live     *struct{ Source string }
	}
	status := func(name string) (collection, error) {
		out, err := exec.CommandContext(t.Context(), larder, "status", filepath.Join(dir, name+".db"), "-o", "json").Output()
		if err != nil {
			return collection{}, err
		}
		var all struct{ Collections []collection }
		if err := json.Unmarshal(out, &all); err != nil || len(all.Collections) == 0 {
			return collection{}, err
		}
		return all.Collections[0], nil
	}
	live := func(name string, p *program) {
		t.Helper()
		p.eventually(t, name+" is live", func() string {
			got, err := status(name)
			if err != nil || got.Live == nil || got.Live.Source != "live" {
				return fmt.Sprint(got, err)
			}
			return ""
		})
	}
	first := startProgram(t, exec.Command(larder, args("first")...), filepath.Join(dir, "first.log"), func([]byte) {})
	live("first", first)
	first.terminate(t)
	saved := filepath.Join(dir, "seed.larder")
	if out, err := exec.CommandContext(t.Context(), larder, "snapshot", "save", saved, "--from",
		filepath.Join(dir, "first.db")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole, part := 0, 0
	for n := range 12 {
		name := fmt.Sprint("killed", n)
		log := filepath.Join(dir, name+".log")
		p := startProgram(t, exec.Command(larder, args(name, "--seed", saved)...), log, func([]byte) {})
		time.Sleep(time.Duration(n) * 50 * time.Millisecond)
		p.kill()
		if got, err := status(name); err == nil { // fails until there is a store
			if got.Complete && got.Objects < len(cm) {
				t.Errorf("killed after %d × 50 ms: it has %d objects, and says that these are all", n, got.Objects)
			}
			if got.Complete {
				whole++
			} else {
				part++
			}
		}
		if n%6 != 5 {
			continue
		}
		again := startProgram(t, exec.Command(larder, args(name, "--seed", saved)...), log, func([]byte) {})
		live(name, again)
		if got, err := status(name); err != nil || got.Objects < len(cm) {
			t.Errorf("started again after %d × 50 ms: %+v, %v", n, got, err)
		}
		again.terminate(t)
	}
	t.Logf("%d times the collection was whole, and %d times not", whole, part)
}
