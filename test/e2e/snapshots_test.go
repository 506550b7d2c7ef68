package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/test/e2e/fileservers"
)

type command struct {
	*cluster
	t      *testing.T
	dir    string
	larder string
	env    []string
}

func newCommand(t *testing.T, c *cluster, env ...string) *command {
	t.Helper()
	dir := t.TempDir()
	c.kubeconfig(t, "", dir)
	return &command{c, t, dir, buildLarder(t, dir), env}
}

func (c *command) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), c.larder, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	return cmd
}

func (c *command) run(args ...string) string {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("larder %s: %v\n%s", args, err, out)
	}
	return string(out)
}

func (c *command) sync(store string, more ...string) *program {
	c.t.Helper()
	args := append([]string{"sync", "configmaps", "-n", c.ns, "--store", store + ".db", "--kubeconfig", "kubeconfig"},
		more...)
	cmd := exec.Command(c.larder, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	return startProgram(c.t, cmd, filepath.Join(c.dir, store+".log"), func([]byte) {})
}

// live waits until a larder sync is in contact with the server. It returns the name of the seed in the sync's status.
func (c *command) live(store string, p *program) (seed string) {
	c.t.Helper()
	p.eventually(c.t, store+" is live", func() string {
		out, err := c.command("status", store+".db", "-o", "json").Output()
		if err != nil {
			return err.Error()
		}
		var status struct {
			Collections []struct{ Live struct{ Source, Seed string } }
		}
		if err := json.Unmarshal(out, &status); err != nil {
			return err.Error()
		}
		if len(status.Collections) == 0 || status.Collections[0].Live.Source != "live" {
			return string(out)
		}
		seed = status.Collections[0].Live.Seed
		return ""
	})
	return seed
}

// begun fails the test unless the sync has started from a seed without a list.
func (c *command) begun(seed string) {
	c.t.Helper()
	if !strings.Contains(seed, "begun with") {
		c.t.Errorf("seed: %s", seed)
	}
	if n := c.lists(); n > 0 {
		c.t.Errorf("it has listed %d times", n)
	}
}

func (c *command) lists() (n int) {
	c.t.Helper()
	all, err := c.Requests("", c.since)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range all {
		if strings.HasPrefix(r.UserAgent, "larder/") && r.Resource == "configmaps" && r.Namespace == c.ns &&
			(r.List() || r.Compare() || r.Watch() && r.Query.Get("sendInitialEvents") != "") {
			n++
		}
	}
	return n
}

func (c *command) catalogue(at string, more ...string) (all []struct{ Name, SignedBy, Cluster, Error string }) {
	c.t.Helper()
	out, err := c.command(append([]string{"snapshot", "list", at, "-o", "json"}, more...)...).Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		c.t.Fatalf("list %s: %v\n%s", at, err, out)
	}
	return all
}

// TestSnapshotsMade checks two syncs with one Lease: one makes snapshots, and after its death the other takes over. Old
// snapshots must be pruned. A third sync must start without a list from the latest snapshot, which the first sync
// serves.
func TestSnapshotsMade(t *testing.T) {
	t.Parallel()
	c := newCommand(t, newCluster(t, ownControlPlane(t)))
	c.createConfigMaps(t, names("cm", 0, 300), "old")
	public := strings.TrimSpace(c.run("keygen", "--signing", "sign.key"))
	must(t, os.Mkdir(filepath.Join(c.dir, "snapshots"), 0o700))
	to := []string{"--snapshot-to", "snapshots/", "--snapshot-every", "1s", "--snapshot-keep-last", "3",
		"--snapshot-sign-key", "sign.key", "--snapshot-lease", "default/larder-snapshots"}
	first := c.sync("first", append(to, "--serve", "127.0.0.1:0", "--serve-kubeconfig", "first.kubeconfig")...)
	c.live("first", first)
	latest := func() string {
		text, _ := os.ReadFile(filepath.Join(c.dir, "snapshots", "latest"))
		return string(text)
	}
	first.eventually(t, "a snapshot is there", func() string {
		if latest() == "" {
			return "there is none"
		}
		return ""
	})
	second := c.sync("second", to...)
	c.live("second", second)
	all := c.catalogue("snapshots/")
	if len(all) == 0 || len(all) > 4 { // the newest may be complete before old ones are pruned
		t.Errorf("%d snapshots are kept", len(all))
	}
	for _, s := range all {
		if s.SignedBy == "" || s.Cluster == "" || s.Error != "" {
			t.Errorf("%+v", s)
		}
	}

	kubeconfig, err := os.ReadFile(filepath.Join(c.dir, "first.kubeconfig"))
	must(t, err)
	server := ""
	for line := range strings.Lines(string(kubeconfig)) {
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "server: "); ok {
			server = url
		}
	}
	c.mark(t)
	node := c.sync("node", "--seed", server+"/snapshot/", "--seed-kubeconfig", "first.kubeconfig", "--seed-key", public)
	c.begun(c.live("node", node))
	node.terminate(t)

	first.kill()
	killed := latest()
	c.putConfigMaps(t, names("cm", 0, 10), "new") // changes the cluster, so that there is a new snapshot
	second.eventually(t, "the other makes snapshots", func() string {
		if now := latest(); now == killed || strings.Contains(second.stderr(), "No snapshot was made") {
			return second.stderr()
		}
		return ""
	})
	second.terminate(t)
	if out := c.run("snapshot", "pull", "snapshots/", "pulled.larder", "--signed-by", public); !strings.Contains(out,
		"verified") {
		t.Error(out)
	}
	if left, err := filepath.Glob(filepath.Join(c.dir, "*.snapshot-*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}

	// A sync that starts offline has no new state, and makes no snapshot.
	before := latest()
	c.StopAPIServer()
	offline := c.sync("second", "--snapshot-to", "snapshots/", "--snapshot-every", "1s")
	offline.eventually(t, "it is offline", func() string {
		if log := offline.stderr(); !strings.Contains(log, "offline") {
			return log
		}
		return ""
	})
	time.Sleep(3 * time.Second)
	offline.terminate(t)
	if now := latest(); now != before {
		t.Errorf("it has put away %s of what it had stored", now)
	}
}

// TestSnapshotServers checks that an S3 server and a registry with a password store, return and list snapshots. The
// output of a sync must not contain credentials.
func TestSnapshotServers(t *testing.T) {
	t.Parallel()
	const password = "not-for-the-log"
	for name, start := range map[string]func(t *testing.T) (at string, env, hidden []string){
		"s3": func(t *testing.T) (string, []string, []string) {
			s := fileservers.S3(t, t.TempDir())
			return "s3://" + s.Bucket + "/production/", []string{"AWS_ENDPOINT_URL=" + s.Endpoint, "AWS_REGION=" + s.Region,
				"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey}, []string{s.SecretKey, "X-Amz-"}
		},
		"oci": func(t *testing.T) (string, []string, []string) {
			host := fileservers.RegistryAs(t, t.TempDir(), "larder", password)
			dir := t.TempDir()
			auth := base64.StdEncoding.EncodeToString([]byte("larder:" + password))
			must(t, os.WriteFile(filepath.Join(dir, "config.json"),
				fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth), 0o600))
			return "oci://" + host + "/production/state", []string{"DOCKER_CONFIG=" + dir}, []string{password, auth}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, env, hidden := start(t)
			c := newCommand(t, newCluster(t, shared), env...)
			c.createConfigMaps(t, names("cm", 0, 300), "old")
			if all := c.catalogue(at); len(all) > 0 {
				t.Errorf("before anything was pushed: %v", all)
			}
			first := c.sync("first", "--snapshot-to", at, "--snapshot-every", "1s", "--snapshot-keep-last", "2", "-v", "1")
			c.live("first", first)
			first.eventually(t, "snapshots come and go", func() string {
				c.putConfigMaps(t, names("cm", 0, 1), fmt.Sprint(time.Now()))
				if n := strings.Count(first.stderr(), "Removed a snapshot"); n < 2 {
					return first.stderr()
				}
				return ""
			})
			c.mark(t)
			node := c.sync("node", "--seed", at)
			c.begun(c.live("node", node))
			node.terminate(t)
			first.terminate(t)

			all := c.catalogue(at)
			if len(all) < 2 || len(all) > 3 {
				t.Errorf("%d snapshots: %v", len(all), all)
			}
			sep := ""
			if name == "oci" {
				sep = ":"
			}
			one := at + sep + all[len(all)-1].Name
			c.run("snapshot", "pull", one, "one.larder")
			c.run("snapshot", "pull", at, "latest.larder")
			if got := strings.TrimSpace(c.run("snapshot", "push", "one.larder", at)); got != all[len(all)-1].Name {
				t.Errorf("pushed again, it is called %s, and was %s", got, all[len(all)-1].Name)
			}
			// The sync may have ended after it stored the newest snapshot and before it marked that snapshot as the latest,
			// which prune keeps as well. The following push marks it.
			c.run("snapshot", "pull", at+sep+all[0].Name, "newest.larder")
			c.run("snapshot", "push", "newest.larder", at)
			c.mark(t)
			node = c.sync("again", "--seed", one)
			c.begun(c.live("again", node))
			node.terminate(t)
			c.run("snapshot", "prune", at, "--keep-last", "1")
			if left := c.catalogue(at); len(left) != 1 || left[0].Name != all[0].Name {
				t.Errorf("left are %v of %v", left, all)
			}
			for _, log := range []string{"first", "node", "again"} {
				text, err := os.ReadFile(filepath.Join(c.dir, log+".log"))
				must(t, err)
				for _, word := range hidden {
					if strings.Contains(string(text), word) {
						t.Errorf("%s.log has %q:\n%s", log, word, text)
					}
				}
			}
			out, err := c.command("snapshot", "pull", at+sep+"none.larder", "none.larder").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "file does not exist") {
				t.Errorf("what is not there: %v\n%s", err, out)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
