package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// audited returns informer options under which an audit compares stored objects with a metadata list. A start looks up
// only the newest objects, as for a collection too large to compare.
func audited(t *testing.T, cfg *rest.Config, src source) func(*informer.Options) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *informer.Options) {
		list := requests.ListMetadata(client.CoreV1().RESTClient(), src.identity)
		o.ListMetadata = func(ctx context.Context, lo metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			if lo.TimeoutSeconds != nil {
				return nil, reflector.ErrIncomparable
			}
			return list(ctx, lo)
		}
		o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	}
}

// audit runs the informer's audit, and checks that the audit finds and repairs exactly the wanted keys. Before that, it
// waits until the watch has reached the server's current resourceVersion, which may take a minute until a bookmark.
func (s *subject) audit(t *testing.T, c *cluster, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	report, err := s.Audit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(report.Keys, want) {
		t.Errorf("the audit found %q, want %q", report.Keys, want)
	}
	t.Logf("%+v", report)
	if problem := c.pods(t).diff(s.held(t)); problem != "" {
		t.Error("after the audit:", problem)
	}
	st := s.Status()
	if n := st.Reflector.Relists[reflector.ReasonAudit] + st.Reflector.Relists[reflector.ReasonDamaged]; n != 1 ||
		len(st.Reflector.Relists) != 1 {
		t.Errorf("it was not repaired by one list: %v", st.Reflector.Relists)
	}
	incidents := 0
	for _, n := range st.Incidents {
		incidents += n
	}
	if incidents != 1 {
		t.Errorf("incidents: %v", st.Incidents)
	}
}

func (s *subject) checkStored(t *testing.T, c *cluster) {
	t.Helper()
	s.stop(t)
	s.file.close(t)
	if problem := c.pods(t).diff(s.file.read(t, s.source.identity, s.source.example).objects); problem != "" {
		t.Error("on disk:", problem)
	}
}

// TestAuditFindsHoles checks that an audit finds records that are missing from the file. Reads do not notice such a
// loss.
func TestAuditFindsHoles(t *testing.T) {
	t.Parallel()
	for name, residency := range map[string]store.Residency{"all": store.All, "none": store.None} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, shared)
			c.createPods(t, names("p", 0, 60))
			cfg := c.Config(t.Name())
			src := podSource(t, cfg, c.ns)
			f := newFile(t)
			change := func(o *informer.Options) {
				audited(t, cfg, src)(o)
				// The check of the file before an audit would find index entries without a record, and end the run. See
				// TestAuditFindsMissingRecords of package informer.
				o.Residency, o.Indexers = residency, nil
			}
			f.run(t, src, change)
			holes := []string{c.ns + "/p-00010", c.ns + "/p-00020", c.ns + "/p-00030"}
			punch(t, f.path, holes)

			s := f.start(t, src, change)
			s.sync(t)
			eventually(t, "the replay", func() string {
				if n := len(s.all(t)); n != 57 {
					return fmt.Sprintf("%d objects", n)
				}
				return ""
			})
			if st := s.Status().Reflector; st.Lists > 0 {
				t.Fatalf("the start has met the holes: %+v", st)
			}
			s.audit(t, c, holes[0], holes[1], holes[2])
			for _, n := range s.all(t)[57:] {
				if n.verb != "add" || !slices.Contains(holes, n.key) {
					t.Errorf("told %s of %s", n.verb, n.key)
				}
			}
			c.createPods(t, []string{"live"})
			s.converge(t, c.pods(t))
			s.checkStored(t, c)
		})
	}
}

// TestStartFindsHoles checks that a start with metadata comparison finds records that are missing from the file. A list
// replaces the missing objects before HasSynced (issue 38, A.1).
func TestStartFindsHoles(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 60))
	cfg := c.Config(t.Name())
	src := podSource(t, cfg, c.ns)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	compares := func(o *informer.Options) {
		o.ListMetadata = requests.ListMetadata(client.CoreV1().RESTClient(), src.identity)
	}
	f := newFile(t)
	f.run(t, src, compares)
	punch(t, f.path, []string{c.ns + "/p-00010", c.ns + "/p-00020", c.ns + "/p-00030"})
	s := f.start(t, src, compares)
	s.sync(t)
	if problem := c.pods(t).diff(s.held(t)); problem != "" {
		t.Error("when it had synced:", problem)
	}
	if st := s.Status().Reflector; st.Relists[reflector.ReasonRewound] != 1 || st.Lists != 1 {
		t.Errorf("status %+v", st)
	}
	s.checkStored(t, c)
}

// punch deletes records from the only collection in a closed store file, and lowers the stored number of objects to
// match. Only a comparison with the server can find the loss.
func punch(t *testing.T, path string, keys []string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return disk.EachCollection(tx, func(id string, b *bbolt.Bucket) error {
			objects := b.Bucket(disk.Objects)
			for _, key := range keys {
				if objects.Get([]byte(key)) == nil {
					return fmt.Errorf("%s is not in the file", key)
				}
				if err := objects.Delete([]byte(key)); err != nil {
					return err
				}
			}
			left := disk.Len(objects)
			return disk.EditInfo(b, id, func(info map[string]any) { info["objects"] = left })
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAuditFindsARewoundCluster restores etcd from a backup, and writes until the resourceVersion exceeds the client's.
// All objects that the rewind check looks up have changed since, so watch events explain them. Only the audit finds the
// objects that were created and deleted in the lost history.
func TestAuditFindsARewoundCluster(t *testing.T) {
	t.Parallel()
	cp := ownControlPlane(t)
	c := newCluster(t, cp)
	c.createPods(t, names("p", 0, 50))
	backup, err := cp.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.deletePods(t, names("p", 49, 50))
	c.createPods(t, names("lost", 0, 1))
	newest := names("p", 0, 20) // more objects than a start looks up
	c.touchPods(t, newest, "lost")
	cfg := cp.Config(t.Name())
	src := podSource(t, cfg, c.ns)
	f := newFile(t)
	_, before := f.run(t, src, audited(t, cfg, src))
	if err := cp.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	for round := 0; !newer(t, c.resourceVersion(t), before.ResourceVersion); round++ {
		c.touchPods(t, newest, fmt.Sprint("again ", round))
	}
	c.touchPods(t, newest, "beyond")

	s := f.start(t, src, audited(t, cfg, src))
	s.sync(t)
	if st := s.Status().Reflector; st.Lists > 0 || st.Lookups == 0 {
		t.Fatalf("the test shows nothing: the guards have seen it, or did not look: %+v", st)
	}
	if problem := c.pods(t).diff(s.held(t)); problem == "" {
		t.Fatal("the test shows nothing: the client holds what the server has")
	}
	s.audit(t, c, c.ns+"/lost-00000", c.ns+"/p-00049")
	calls := map[string]notice{}
	for _, n := range s.all(t)[len(before.objects):] {
		if n.verb != "update" {
			calls[n.verb+" "+n.key] = n
		}
	}
	added, deleted := calls["add "+c.ns+"/p-00049"], calls["delete "+c.ns+"/lost-00000"]
	if len(calls) != 2 || added.obj == nil || !deleted.tombstone {
		t.Errorf("told %v", calls)
	}
	c.checkLive(t, s)
	s.checkStored(t, c)
}

func TestAuditFindsSwallowedEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 30))
	direct := c.Config(t.Name())
	proxy := newFilter(t, direct)
	cfg := proxy.config(direct)
	src := podSource(t, cfg, c.ns)
	f := newFile(t)
	s := f.start(t, src, audited(t, cfg, src))
	s.sync(t)
	proxy.swallow("new-00000", "p-00003", "p-00005")
	c.createPods(t, names("new", 0, 1))
	c.touchPods(t, []string{"p-00003"}, "swallowed")
	c.deletePods(t, []string{"p-00005"})
	c.touchPods(t, []string{"p-00007"}, "passes")
	eventually(t, "the event that passes", func() string {
		obj, _, err := s.GetStore().GetByKey(c.ns + "/p-00007")
		if err != nil {
			t.Fatal(err)
		}
		if pod, ok := obj.(*corev1.Pod); ok && pod.Annotations["touched"] == "passes" {
			return ""
		}
		return "has not come"
	})
	if proxy.count() < 3 {
		t.Fatalf("%d events were swallowed", proxy.count())
	}
	s.audit(t, c, c.ns+"/p-00003", c.ns+"/p-00005", c.ns+"/new-00000")
	proxy.swallow()
	c.touchPods(t, []string{"p-00003", "new-00000"}, "told")
	c.checkLive(t, s)
	s.checkStored(t, c)
}
