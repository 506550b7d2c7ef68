package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/snapshot"
)

// otherCluster is a snapshot whose collections have the id of another cluster.
type otherCluster struct{ *snapshot.File }

func (e otherCluster) Collections(ctx context.Context) ([]snapshot.Collection, error) {
	all, err := e.File.Collections(ctx)
	for i := range all {
		all[i].Attributes.ClusterID = "another"
	}
	return all, err
}

// TestSeedRefused checks that a sync with an unsuitable seed reports the reason in its log and status, lists, and ends
// with the API server's state.
func TestSeedRefused(t *testing.T) {
	t.Parallel()
	c := newCommand(t, newCluster(t, ownControlPlane(t, "--watch-cache-sizes=configmaps#0")))
	cm := names("cm", 0, 300)
	c.createConfigMaps(t, cm, "old")
	public := strings.TrimSpace(c.run("keygen", "--signing", "sign.key"))
	other := strings.TrimSpace(c.run("keygen", "--signing", "other.key"))
	c.live("first", c.sync("first"))
	c.run("snapshot", "save", "signed.larder", "--from", "first.db", "--sign-key", "sign.key")
	c.run("snapshot", "save", "unsigned.larder", "--from", "first.db")
	part := c.sync("part", "-l", "there=not")
	c.live("part", part)
	part.terminate(t)
	c.run("snapshot", "save", "part.larder", "--from", "part.db")

	in := func(name string) string { return filepath.Join(c.dir, name) }
	whole, err := os.ReadFile(in("signed.larder"))
	must(t, err)
	must(t, os.WriteFile(in("truncated.larder"), whole[:len(whole)/2], 0o600))
	tampered := append([]byte(nil), whole...)
	tampered[400] ^= 1 // corrupts the first objects in the snapshot file
	must(t, os.WriteFile(in("tampered.larder"), tampered, 0o600))
	must(t, os.WriteFile(in("none.larder"), []byte("<html>sign in, please</html>"), 0o600))
	f, err := snapshot.Open(in("unsigned.larder"), snapshot.OpenOptions{})
	must(t, err)
	_, err = snapshot.Save(t.Context(), otherCluster{f}, in("elsewhere.larder"), snapshot.SaveOptions{})
	must(t, err)
	must(t, f.Close())

	refused := func(name, want string, args ...string) {
		t.Run(name, func(t *testing.T) {
			c := *c
			c.t = t
			store := "refused-" + strings.ReplaceAll(name, " ", "-")
			c.mark(t)
			p := c.sync(store, args...)
			seed := c.live(store, p)
			if !strings.Contains(seed, "listed, since the seed cannot be used") || !strings.Contains(seed, want) {
				t.Errorf("status says %q, want %q", seed, want)
			}
			p.eventually(t, "the log says so", func() string {
				if log := p.stderr(); !strings.Contains(log, want) {
					return log
				}
				return ""
			})
			if c.lists() == 0 {
				t.Error("it has not listed")
			}
			p.terminate(t)
			if n := strings.Count(c.run("get", "configmaps", "-n", c.ns, "--from", store+".db", "-o", "name"), "/cm-"); n != len(cm) {
				t.Errorf("it has %d objects", n)
			}
		})
	}
	refused("tampered", "is not what was written (SHA-256)", "--seed", "tampered.larder")
	refused("truncated", "it was cut short", "--seed", "truncated.larder")
	refused("no snapshot", "not a snapshot of Larder", "--seed", "none.larder")
	refused("not there", "no such file", "--seed", "nothing.larder")
	refused("not reachable", "connection refused", "--seed", "https://127.0.0.1:1/cluster.larder")
	refused("of another cluster", "is of the cluster another", "--seed", "elsewhere.larder")
	refused("of another selector", "is selected by the labels there=not", "--seed", "part.larder")
	refused("unsigned", "is not signed", "--seed", "unsigned.larder", "--seed-key", public)
	refused("signed by another", "expected is", "--seed", "signed.larder", "--seed-key", other)
	time.Sleep(2 * time.Second) // snapshot times have a resolution of one second
	refused("put back", "more than 1s ago", "--seed", "signed.larder", "--seed-key", public, "--seed-max-age", "1s")

	for range 3 {
		c.putConfigMaps(t, cm[:50], time.Now().String())
	}
	must(t, c.Compact(t.Context()))
	refused("older than history", "is as old as the seed that was too old", "--seed", "signed.larder")
}
