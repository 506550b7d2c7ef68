package e2e

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// TestSnapshotRoundTrip fills a store from a cluster, with sealed Secrets, and saves it to an encrypted snapshot while
// informers run. The snapshot is verified and restored with another key. Informers on the restored store must resume
// without a list, receive the changes since the snapshot, and equal the server object by object. A snapshot saved
// directly from the server must also equal the server.
func TestSnapshotRoundTrip(t *testing.T) {
	t.Parallel()
	pods := 10_000
	if soak {
		pods = 100_000
	}
	begun := time.Now()
	lap := func(format string, args ...any) {
		t.Helper()
		t.Logf("%6.2fs %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	w := newWorld(t, newCluster(t, ownControlPlane(t)), pods)
	lap("%d pods and some of everything else are there", pods)
	dir, id := t.TempDir(), newIdentity(t)
	first := job{Store: filepath.Join(dir, "first.db"), Snapshot: filepath.Join(dir, "cluster.larder"), Keys: newKey(t),
		Identity: id.String()}
	second := job{Store: filepath.Join(dir, "second.db"), Snapshot: first.Snapshot, Keys: newKey(t), Identity: id.String()}

	m := w.start(t, first, t.Name()+"/first")
	m.synced(t)
	lap("mirrored")
	saved, err := snapshot.SaveStore(t.Context(), m.store, first.Snapshot,
		snapshot.SaveOptions{Recipients: []age.Recipient{id.Recipient()}})
	if err != nil {
		t.Fatal(err)
	}
	lap("saved")
	if len(saved.LeftOut) > 0 {
		t.Errorf("left out: %q", saved.LeftOut)
	}
	m.stop()
	then := w.scene(t)
	w.change(t)
	lap("changed meanwhile")
	then.mustBe(t, "the snapshot", openSnapshot(t, first.Snapshot, id))
	lap("%d objects in the snapshot are what the server had", then.objects())

	w.mark(t)
	restored, err := snapshot.Restore(t.Context(), second.Snapshot, second.Store, snapshot.RestoreOptions{
		Identities: []age.Identity{id}, Import: store.ImportOptions{Store: second.storeOptions(t)},
	})
	if err != nil || restored.Objects != then.objects() {
		t.Fatalf("%d of %d objects were restored: %v", restored.Objects, then.objects(), err)
	}
	lap("restored")
	second.sealedFrom(t, first)
	agent := t.Name() + "/second"
	m = w.start(t, second, agent)
	now := w.scene(t) // during the resume, which takes long for Events without a watch cache
	live := filepath.Join(dir, "live.larder")
	if _, err := snapshot.SaveServer(t.Context(), w.listings(), live,
		snapshot.SaveOptions{Recipients: []age.Recipient{id.Recipient()}}); err != nil {
		t.Fatal(err)
	}
	lap("saved from the server")
	now.mustBe(t, "the snapshot of the server", openSnapshot(t, live, id))
	lap("it is equal")
	m.synced(t)
	m.converge(t, now)
	lap("resumed")
	w.resumed(t, agent)
	m.stop()
	second.read(t, func(src snapshot.Source) { now.mustBe(t, "what was restored", src) })
	lap("%d objects in the store that was restored are what the server has", now.objects())
	w.figures(t, second)
	lap("measured")
}

// figures measures save, verify and restore in separate processes, and logs the results. With LARDER_SOAK=1 it also
// measures etcd's snapshot and kubectl's export.
func (w *world) figures(t *testing.T, j job) {
	t.Helper()
	dir := t.TempDir()
	j.Snapshot = filepath.Join(dir, "cluster.larder")
	for _, do := range []string{"save", "verify", "restore"} {
		if j.Do = do; do == "restore" {
			j.Store = filepath.Join(dir, "restored.db")
		}
		size := sizeOf(t, j.Store)
		r := j.once(t)
		t.Logf("%s: %v", do, r)
		if do == "save" {
			t.Logf("store %s, snapshot %s", size, sizeOf(t, j.Snapshot))
		}
	}
	if soak {
		w.otherFigures(t)
	}
}

func (w *world) otherFigures(t *testing.T) {
	t.Helper()
	plain := count{}
	packed := gzip.NewWriter(&plain)
	begun := time.Now()
	etcd, err := w.EtcdSnapshot(t.Context(), packed)
	if err = errors.Join(err, packed.Close()); err != nil {
		t.Fatal(err)
	}
	t.Logf("etcd's snapshot (compacted and defragmented, with what the API server has besides): %s, with gzip %s, %s",
		mib(etcd), mib(plain.bytes), time.Since(begun).Round(time.Millisecond))
	// All namespaces would take kubectl half a minute, so the measurement uses one namespace.
	begun = time.Now()
	yaml, gz := w.kubectlYAML(t, w.spaces[0])
	t.Logf("kubectl get -o yaml of one of %d namespaces: %s, with gzip %s, %s", len(w.spaces), mib(yaml), mib(gz),
		time.Since(begun).Round(time.Millisecond))
}

type count struct{ bytes int64 }

func (c *count) Write(b []byte) (int, error) {
	c.bytes += int64(len(b))
	return len(b), nil
}

func (w *world) kubectlYAML(t *testing.T, ns string) (plain, packed int64) {
	t.Helper()
	binaries, err := controlplane.Binaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, k := range worldKinds {
		if k.resource == crds || k.kind == "Namespace" {
			continue
		}
		kinds = append(kinds, k.resource.Resource+"."+k.resource.Version+"."+k.resource.Group)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "kubectl"), "get", strings.Join(kinds, ","), "-n", ns,
		"-o", "yaml",
		"--show-managed-fields", "--cache-dir", dir, "--kubeconfig", w.kubeconfig(t, "kubectl", dir))
	cmd.Stderr = os.Stderr
	in, out := count{}, count{}
	gz := gzip.NewWriter(&out)
	cmd.Stdout = io.MultiWriter(&in, gz)
	if err := errors.Join(cmd.Run(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return in.bytes, out.bytes
}

func (c *cluster) kubeconfig(t *testing.T, userAgent, dir string) string {
	t.Helper()
	cfg, k := c.Config(userAgent), clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	k.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	k.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	k.CurrentContext = "x"
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		t.Fatal(err)
	}
	return path
}

type mirrored struct {
	store     *store.Store
	informers []*informer.Informer
	handler   []*mirror // in the order of worldKinds, like informers
	stop      func()
}

func (w *world) start(t *testing.T, j job, agent string) *mirrored {
	t.Helper()
	s, err := store.Open(j.Store, j.storeOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	m := &mirrored{store: s, stop: sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(m.stop)
	for _, k := range worldKinds {
		src := k.source(t, w.Config(agent))
		i, err := informer.New(src.lw, src.example,
			informer.Options{Store: s, Identity: src.identity, Resource: k.info(), Residency: store.None})
		if err != nil {
			t.Fatal(err)
		}
		handler := &mirror{versions: map[string]string{}, leak: &leak{}}
		if _, err := i.AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
		m.informers, m.handler = append(m.informers, i), append(m.handler, handler)
		running.Go(func() { i.RunWithContext(ctx) })
	}
	return m
}

func (m *mirrored) synced(t *testing.T) {
	t.Helper()
	for n, i := range m.informers {
		eventually(t, "HasSynced", func() string {
			if i.HasSynced() {
				return ""
			}
			return worldKinds[n].kind + ": " + errText(i.Status().Err)
		})
		if st := i.Status(); !st.Persistent || st.Sealed != (worldKinds[n].kind == "Secret") {
			t.Errorf("%s: %+v", worldKinds[n].kind, st)
		}
	}
}

func (m *mirrored) converge(t *testing.T, now scene) {
	t.Helper()
	for n, k := range worldKinds {
		want := map[string]string{}
		for _, obj := range now[k.resource] {
			want[obj.key] = obj.version
		}
		eventually(t, k.kind, func() string {
			if held := m.informers[n].Status().Objects; held != len(want) {
				return fmt.Sprintf("%d objects are held, want %d", held, len(want))
			}
			return m.handler[n].diff(want)
		})
	}
}

// resumed checks that the client with this user agent watched each kind from the snapshot's resourceVersion, and never
// listed.
func (w *world) resumed(t *testing.T, agent string) {
	t.Helper()
	for _, k := range worldKinds {
		a := w.asked(t, agent, k.resource.Resource)
		if by := w.listedBy(t, agent, k.resource.Resource); len(by) > 0 || len(a.watches) == 0 {
			t.Errorf("%s: listed by %q, %d watches", k.kind, by, len(a.watches))
		}
	}
}

func (j job) storeOptions(t *testing.T) store.Options {
	t.Helper()
	o, err := j.options()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (j job) read(t *testing.T, fn func(snapshot.Source)) {
	t.Helper()
	o := j.storeOptions(t)
	o.ReadOnly = true
	s, err := store.Open(j.Store, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := s.Check(t.Context())
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("check of %s: %v %q", j.Store, err, report.Problems)
	}
	fn(snapshot.StoreSource(s))
}

// sealedFrom checks that the job's store cannot be opened with the key of the other job's store.
func (j job) sealedFrom(t *testing.T, other job) {
	t.Helper()
	s, err := store.Open(j.Store, other.storeOptions(t))
	if err == nil {
		err = s.Close()
	}
	if !errors.Is(err, seal.ErrWrongKey) {
		t.Errorf("opened with another key: %v", err)
	}
}

func newIdentity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newKey(t *testing.T) string {
	t.Helper()
	key, err := seal.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func openSnapshot(t *testing.T, path string, id age.Identity) *snapshot.File {
	t.Helper()
	f, err := snapshot.Open(path, snapshot.OpenOptions{Identities: []age.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func sizeOf(t *testing.T, path string) string {
	t.Helper()
	fi, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	return mib(fi.Size())
}
