package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNoPlainText checks that larder with a key writes the content of Secrets to no file: store, snapshot, temporary
// files, output, and the log at its highest verbosity. The test searches for plain text, base64 and hex, during and
// after the run. As a control, a store without a key must contain the text.
func TestNoPlainText(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	p := newPlainText(t, c)
	p.createSecrets(t, "first", "second", "third")

	control := filepath.Join(p.keys, "control.db")
	mirror := p.sync(t, "--store", control, "--persist-secrets")
	p.holds(t, mirror, control, "secret/first", "secret/second", "secret/third")
	mirror.terminate(t)
	if found := p.search(t, p.keys); len(found) == 0 {
		t.Fatal("nothing is found where everything is in plain text: the test shows nothing")
	}
	if found := p.search(t, p.dir); len(found) > 0 {
		t.Fatalf("printed: %q", found)
	}

	stop := p.watch(t)
	db := filepath.Join(p.dir, "cluster.db")
	mirror = p.sync(t, "--store", db, "--key-file", p.key(t, "a"))
	p.holds(t, mirror, db, "secret/first", "secret/second", "secret/third")
	p.touch(t, c, "second")
	p.createSecrets(t, "fourth")
	if err := c.client.CoreV1().Secrets(c.ns).Delete(t.Context(), "third", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.holds(t, mirror, db, "secret/first", "secret/second", "secret/fourth")
	id := newIdentity(t)
	identity := filepath.Join(p.keys, "identity")
	if err := os.WriteFile(identity, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hot, cold, node := filepath.Join(p.dir, "hot.larder"), filepath.Join(p.dir, "cold.larder"),
		filepath.Join(p.dir, "node.db")
	recipient := id.Recipient().String()
	p.run(t, "snapshot", "save", hot, "--from", db, "--recipient", recipient)
	p.run(t, "compact", "--rekey", "--store", db)
	p.run(t, "compact", "--store", db)
	mirror.terminate(t)
	p.run(t, "snapshot", "save", cold, "--from", db, "--recipient", recipient, "--key-file", p.key(t, "a"))
	p.run(t, "snapshot", "restore", cold, "--store", node, "--identity", identity, "--key-file", p.key(t, "b"))
	p.run(t, "compact", "--rekey", "--store", node, "--key-file", p.key(t, "c", "b"))
	p.run(t, "compact", "--store", node)
	p.run(t, "check", "--from", node, "--key-file", p.key(t, "c"))

	// A second larder sync starts from the encrypted snapshot of the first larder sync, and seals the objects with its own
	// key.
	kept, recipients := filepath.Join(p.dir, "kept")+"/", filepath.Join(p.keys, "recipients")
	if err := errors.Join(os.Mkdir(kept, 0o700), os.WriteFile(recipients, []byte(recipient+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	mirror = p.sync(t, "--store", db, "--key-file", p.key(t, "a"), "--snapshot-to", kept, "--snapshot-every", "1s",
		"--snapshot-recipients-file", recipients)
	mirror.eventually(t, "a snapshot is there", func() string {
		if _, err := os.Stat(kept + "latest"); err != nil {
			return err.Error()
		}
		return ""
	})
	seeded := filepath.Join(p.dir, "seeded.db")
	begun := p.sync(t, "--store", seeded, "--key-file", p.key(t, "d"), "--seed", kept, "--seed-identity", identity)
	p.holds(t, begun, seeded, "secret/first", "secret/second", "secret/fourth")
	begun.eventually(t, "it has begun with the snapshot", func() string {
		if log := begun.stderr(); !strings.Contains(log, "begun with "+kept) {
			return log
		}
		return ""
	})
	begun.terminate(t)
	mirror.terminate(t)
	for _, from := range [][]string{{node, "--key-file", p.key(t, "c")}, {hot, "--identity", identity},
		{seeded, "--key-file", p.key(t, "d")}} {
		// With the key, larder get prints the content.
		out, err := p.command(t, append([]string{"get", "secrets", "-A", "-o", "yaml", "--from"}, from...)...).Output()
		if err != nil || p.count(out) == 0 {
			t.Errorf("%s does not give it to who has the key: %v", from[0], err)
		}
	}
	files, found := stop()
	found = append(found, p.search(t, p.dir)...)
	for _, what := range found {
		t.Error(what)
	}
	t.Logf("searched %d times", files)
}

// plainText is a random text inside Secrets, and the directories to search for that text.
type plainText struct {
	*cluster
	larder     string
	kubeconfig string
	dir, keys  string
	marker     string
	forms      map[string][]byte
}

func newPlainText(t *testing.T, c *cluster) *plainText {
	t.Helper()
	raw := make([]byte, 20)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	p := &plainText{cluster: c, dir: t.TempDir(), keys: t.TempDir(), marker: "m" + hex.EncodeToString(raw)}
	p.larder, p.kubeconfig = buildLarder(t, t.TempDir()), c.kubeconfig(t, t.Name(), p.keys)
	p.forms = map[string][]byte{"as it is": []byte(p.marker), "in hex": []byte(hex.EncodeToString([]byte(p.marker))),
		"in HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(p.marker))))}
	for skip := range 3 { // base64 has three forms of a text, one for each offset modulo 3
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + p.marker))
		p.forms[fmt.Sprint("in base64, ", skip)] = []byte(text[4 : len(text)-4])
	}
	if err := os.Mkdir(filepath.Join(p.dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *plainText) createSecrets(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"label": p.marker},
				Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: fmt.Sprintf(
					`{"kind":"Secret","stringData":{"password":%q}}`, p.marker)},
			},
			Data: map[string][]byte{"data": []byte(p.marker), "shifted": []byte("x" + p.marker),
				"again": []byte("xx" + p.marker)},
			StringData: map[string]string{"password": p.marker},
		}
		if _, err := p.client.CoreV1().Secrets(p.ns).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *plainText) touch(t *testing.T, c *cluster, name string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"changed":%q}}}`, p.marker)
	if _, err := c.client.CoreV1().Secrets(c.ns).Patch(t.Context(), name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// key returns the path of a key file with the keys of these names. The first key is the current one.
func (p *plainText) key(t *testing.T, names ...string) string {
	t.Helper()
	var all []byte
	for _, name := range names {
		path := filepath.Join(p.keys, name+".key")
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			text = []byte(newKey(t))
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	path := filepath.Join(p.keys, strings.Join(names, "-")+".keys")
	if err := os.WriteFile(path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *plainText) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.larder, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(p.dir, "tmp"), "KUBECONFIG="+p.kubeconfig)
	cmd.Dir = p.dir
	return cmd
}

func (p *plainText) run(t *testing.T, args ...string) {
	t.Helper()
	out, err := p.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("larder %q: %v\n%s", args, err, out)
	}
	p.keep(t, out)
}

func (p *plainText) keep(t *testing.T, text []byte) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(p.dir, "printed"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *plainText) sync(t *testing.T, args ...string) *program {
	t.Helper()
	cmd := p.command(t, append([]string{"sync", "secrets", "-n", p.ns, "-v", "9"}, args...)...)
	printed := filepath.Join(p.dir, "printed")
	return startProgram(t, cmd, printed, func(line []byte) { p.keep(t, line) })
}

func (p *plainText) holds(t *testing.T, mirror *program, path string, names ...string) {
	t.Helper()
	want := strings.Join(names, "\n")
	mirror.eventually(t, "mirroring", func() string {
		out, err := p.command(t, "get", "secrets", "-A", "-o", "name", "--sort-by", "metadata.creationTimestamp", "--from",
			path).CombinedOutput()
		for _, name := range names {
			if err != nil || strings.Count(string(out), "secret/") != len(names) || !strings.Contains(string(out), name+"\n") {
				return fmt.Sprintf("%s, %v; want\n%s", out, err, want)
			}
		}
		return ""
	})
}

func (p *plainText) count(text []byte) (n int) {
	for _, form := range p.forms {
		n += bytes.Count(text, form)
	}
	return n
}

// search returns where the random text occurs in the files of a directory. It skips files that disappear during the
// search.
func (p *plainText) search(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		for how, form := range p.forms {
			if n := bytes.Count(text, form); n > 0 {
				found = append(found, fmt.Sprintf("%s has it %s, %d times", d.Name(), how, n))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// watch searches repeatedly until stop is called. stop returns the number of searches and the occurrences.
func (p *plainText) watch(t *testing.T) (stop func() (searches int, found []string)) {
	t.Helper()
	var running sync.WaitGroup
	end := make(chan struct{})
	n, all := 0, []string(nil)
	running.Go(func() {
		for ; ; n++ {
			all = append(all, p.search(t, p.dir)...)
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	once := sync.OnceFunc(func() { close(end); running.Wait() })
	t.Cleanup(once)
	return func() (int, []string) { once(); return n, all }
}
