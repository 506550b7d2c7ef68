package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
	"github.com/larder-dev/larder/store"
)

// TestKilledSnapshots kills processes while they save a snapshot, restore it, compact a store or rekey it. Store and
// snapshot must stay unchanged and valid, and the next run must remove all other files from the directory. The store is
// filled by an informer and has sealed Secrets.
func TestKilledSnapshots(t *testing.T) {
	t.Parallel()
	kills := 4
	if soak {
		kills = 200
	}
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 500))
	cfg := c.Config(t.Name())
	pods := podSource(t, cfg, c.ns)
	c.createSecret(t)
	id := newIdentity(t)
	f := newFile(t)
	seed := job{Store: f.path, Snapshot: filepath.Join(t.TempDir(), "cluster.larder"), Keys: newKey(t),
		Identity: id.String()}
	var err error
	if f.Store, err = store.Open(f.path, seed.storeOptions(t)); err != nil {
		t.Fatal(err)
	}
	defer f.close(t)
	for _, src := range []source{pods, typedSource(t, cfg, "secrets", c.ns, "", &corev1.Secret{})} {
		s := f.start(t, src)
		s.sync(t)
		s.stop(t)
	}
	f.close(t)
	if r := seed.as("save").once(t); r.Objects != 501 {
		t.Fatalf("%d objects were saved", r.Objects)
	}
	if problem := c.pods(t).diff(readSnapshot(t, seed.Snapshot, pods, id).objects); problem != "" {
		t.Fatal("the snapshot:", problem)
	}
	good := openSnapshot(t, seed.Snapshot, id) // a copy that no killed job can change
	for _, do := range []string{"save", "restore", "compact", "rekey"} {
		t.Run(do, func(t *testing.T) {
			k := &killed{seed: seed, good: good, id: id}
			k.prepare(t, do)
			k.run(t, kills)
		})
	}
}

func (j job) as(do string) job {
	j.Do = do
	return j
}

// killed is a job whose process the test kills repeatedly, in a separate directory.
type killed struct {
	job
	seed  job
	good  *snapshot.File // the content that store and snapshot must keep
	id    age.Identity
	names []string
}

// prepare copies store and snapshot into a new directory, and sets up the job with the operation do on the copies.
func (k *killed) prepare(t *testing.T, do string) {
	t.Helper()
	dir := t.TempDir()
	k.job = k.seed.as(do)
	k.Again = true
	k.Store, k.Snapshot = filepath.Join(dir, "cluster.db"), filepath.Join(dir, "cluster.larder")
	copyFile(t, k.seed.Store, k.Store)
	copyFile(t, k.seed.Snapshot, k.Snapshot)
	k.names = []string{"cluster.db", "cluster.larder"}
	if do == "rekey" { // during a rekey, the old key can still decrypt
		k.Keys = newKey(t) + k.Keys
	}
}

// run kills the job's process at times spread over the duration of the job.
func (k *killed) run(t *testing.T, kills int) {
	random := newRandom(t)
	once := k.job
	once.Again = false
	begun := time.Now()
	if k.Do == "restore" {
		k.removeStore(t)
	}
	took := once.once(t).Took
	t.Logf("it takes %s, %s with the start of the process", took.Round(time.Millisecond),
		time.Since(begun).Round(time.Millisecond))
	left := 0
	for n := 0; n < kills || left == 0 && n < 20*kills; n++ { // repeats until at least one kill has left a partial file
		done := make(chan struct{}, 1)
		p := k.start(t, func(jobReport) {
			select {
			case done <- struct{}{}:
			default:
			}
		})
		select {
		case <-done: // the child has run the job once, and repeats it
		case <-p.done:
			t.Fatalf("%s ended: %v\n%s", k.Do, p.err, p.stderr())
		}
		time.Sleep((took*time.Duration(n%kills) + time.Duration(random.Int64N(int64(took)))) / time.Duration(kills))
		p.kill()
		if slices.ContainsFunc(k.list(t), func(name string) bool { return !slices.Contains(k.names, name) }) {
			left++
		}
		k.intact(t, fmt.Sprintf("kill %d", n+1))
		if k.Do == "restore" {
			k.removeStore(t)
		}
		once.once(t)
		if now := k.list(t); !slices.Equal(now, k.names) {
			t.Fatalf("kill %d: after another run there are %q", n+1, now)
		}
		k.intact(t, fmt.Sprintf("another run after kill %d", n+1))
	}
	t.Logf("%d of %d kills have left something", left, kills)
	if left == 0 {
		t.Error("no kill came while anything was being made: the test shows nothing")
	}
}

func (k *killed) intact(t *testing.T, when string) {
	t.Helper()
	f, err := snapshot.Open(k.Snapshot, snapshot.OpenOptions{Identities: []age.Identity{k.id}})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer f.Close()
	k.mustEqual(t, when, f)
	_, err = os.Stat(k.Store)
	if os.IsNotExist(err) && k.Do == "restore" {
		return // there is no store yet
	}
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	k.read(t, func(src snapshot.Source) { k.mustEqual(t, when, src) })
}

func (k *killed) mustEqual(t *testing.T, when string, src snapshot.Source) {
	t.Helper()
	report, err := diff.Compare(t.Context(), k.good, src, diff.Options{Ignore: []string{}},
		func(c diff.Change) error {
			t.Errorf("%s: %s of %s: %s", when, c.Kind, c.Key, c.Patch)
			return nil
		})
	if err != nil || !report.Equal() || report.Same == 0 {
		t.Fatalf("%s: %+v, %v", when, report, err)
	}
}

func (k *killed) list(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(k.Store))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (k *killed) removeStore(t *testing.T) {
	t.Helper()
	if err := os.Remove(k.Store); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
