package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

func fine(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func value[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// seedServer is a server of pods in four namespaces and on three nodes, with a directory for snapshots.
type seedServer struct {
	*testing.T
	api      *fakeapi.Server
	client   rest.Interface
	metadata metadata.Interface
	dir      string
}

func newSeeds(t *testing.T) *seedServer {
	s := &seedServer{T: t, api: fakeapi.New(fakeapi.Options{}), dir: t.TempDir()}
	if err := s.api.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.api.Stop)
	for n := range 60 {
		s.write(n, "old")
	}
	config := rest.CopyConfig(s.api.Config())
	config.ContentType = runtime.ContentTypeProtobuf
	s.client = value(kubernetes.NewForConfig(config))(t).CoreV1().RESTClient()
	s.metadata = value(metadata.NewForConfig(s.api.Config()))(t)
	t.Cleanup(s.client.(*rest.RESTClient).Client.CloseIdleConnections)
	return s
}

func (s *seedServer) in(t *testing.T) *seedServer {
	return &seedServer{t, s.api, s.client, s.metadata, t.TempDir()}
}

func (s *seedServer) write(n int, version string) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("ns%d", n%4), Name: fmt.Sprintf("p%02d", n),
			Labels: map[string]string{"tier": fmt.Sprint(n % 2)}, Annotations: map[string]string{"version": version}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node%d", n%3)},
	}
	if version == "old" {
		fine(s.T)(s.api.Create(podsResource, p))
	} else {
		fine(s.T)(s.api.Update(podsResource, p))
	}
}

// run runs an informer until it has synced. change modifies the options of an informer of all pods.
func (s *seedServer) run(
	file string, example runtime.Object, change func(o *informer.Options),
) (*informer.Informer, func()) {
	s.Helper()
	st := value(store.Open(filepath.Join(s.dir, file), store.Options{}))(s.T)
	o := informer.Options{Store: st, Identity: entry.Identity{GroupVersionResource: podsResource}, Residency: store.None,
		ClusterID: func(context.Context) (string, error) { return "here", nil }}
	o.Resource = entry.ResourceInfo{Kind: "Pod", Singular: "pod", Namespaced: true}
	if _, ok := example.(*unstructured.Unstructured); ok {
		o.Codec = codec.UnstructuredWith(scheme.Scheme)
	}
	if change != nil {
		change(&o)
	}
	var lw cache.ListerWatcher = requests.ListWatch(s.client, o.Identity)
	if _, ok := example.(*metav1.PartialObjectMetadata); ok {
		lw = requests.ClientListWatch(s.metadata.Resource(podsResource).Namespace(o.Identity.Namespace), o.Identity)
	}
	i := value(informer.New(lw, example, o))(s.T)
	ctx, cancel := context.WithCancel(s.Context())
	var done sync.WaitGroup
	done.Go(func() { i.RunWithContext(ctx) })
	limited, giveUp := context.WithTimeout(ctx, time.Minute)
	defer giveUp()
	if !cache.WaitForCacheSync(limited.Done(), i.HasSynced) {
		s.Fatalf("it has not synced: %+v", i.Status())
	}
	return i, func() {
		cancel()
		done.Wait()
		if err := st.Close(); err != nil {
			s.Error(err)
		}
	}
}

func (s *seedServer) save(file string, example runtime.Object, change func(o *informer.Options)) string {
	s.Helper()
	i, stop := s.run(file+".db", example, change)
	defer stop()
	path := filepath.Join(s.dir, file)
	fine(s.T)(snapshot.SaveStore(s.Context(), i.File(), path, snapshot.SaveOptions{}))
	return path
}

func opens(paths ...string) snapshot.Seed {
	var mu sync.Mutex
	return func(context.Context, time.Time) (*snapshot.File, error) {
		mu.Lock()
		defer mu.Unlock()
		path := paths[0]
		if len(paths) > 1 {
			paths = paths[1:]
		}
		return snapshot.Open(path, snapshot.OpenOptions{})
	}
}

// held returns the objects of an informer as JSON values, without the kind.
func held(t *testing.T, all []any) map[string]any {
	t.Helper()
	objects := map[string]any{}
	for _, obj := range all {
		u := value(runtime.DefaultUnstructuredConverter.ToUnstructured(obj))(t)
		delete(u, "apiVersion")
		delete(u, "kind")
		objects[value(cache.MetaNamespaceKeyFunc(obj))(t)] = u
	}
	return objects
}

// TestSeed checks that an informer that starts from a snapshot has the same objects as an informer that lists.
func TestSeed(t *testing.T) {
	untyped, typed, metadata := &unstructured.Unstructured{}, &corev1.Pod{}, &metav1.PartialObjectMetadata{}
	all, namespace := entry.Identity{}, entry.Identity{Namespace: "ns1"}
	labels, node := entry.Identity{LabelSelector: "tier=1"}, entry.Identity{FieldSelector: "spec.nodeName=node2"}
	for name, tt := range map[string]struct {
		from, to runtime.Object
		want     entry.Identity
	}{
		"the same": {untyped, untyped, all}, "a node": {untyped, untyped, node}, "labels": {untyped, untyped, labels},
		"typed from unstructured": {untyped, typed, all}, "a node, typed from unstructured": {untyped, typed, node},
		"a namespace, typed from unstructured": {untyped, typed, namespace}, "typed": {typed, typed, labels},
		"metadata from unstructured": {untyped, metadata, namespace}, "metadata from typed": {typed, metadata, node},
		"metadata": {metadata, metadata, labels},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSeeds(t)
			path := s.save("seed.larder", tt.from, nil)
			for n := range 9 {
				s.write(n, "new")
			}
			fine(t)(nil, s.api.Delete(podsResource, "ns3", "p59"))
			id := tt.want
			id.GroupVersionResource = podsResource
			seeded := func(o *informer.Options) { o.Identity, o.Seed = id, opens(path) }
			before := s.api.Counts(podsResource)
			i, stop := s.run("store.db", tt.to, seeded)
			counts, st := s.api.Counts(podsResource), i.Status()
			if counts.Lists != before.Lists || counts.Compares != before.Compares || st.Seed == nil || st.Seed.Err != nil ||
				st.Seed.Source != path || len(st.Reflector.Relists) > 0 {
				t.Errorf("%d lists, seed %+v, relists %v", counts.Lists-before.Lists, st.Seed, st.Reflector.Relists)
			}
			got := held(t, i.GetStore().List())
			stop()
			i, stop = s.run("listed.db", tt.to, func(o *informer.Options) { o.Identity = id })
			want := held(t, i.GetStore().List())
			stop()
			if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
				t.Errorf("%d objects (- listed, + seeded):\n%s", len(want), d)
			}
			before = s.api.Counts(podsResource)
			i, stop = s.run("store.db", tt.to, seeded)
			defer stop()
			if st := i.Status(); st.Seed != nil || s.api.Counts(podsResource).Lists != before.Lists {
				t.Errorf("the second start: %+v", st)
			}
		})
	}
}

// TestNoSeed checks that an unsuitable snapshot is not applied, and that the informer's status has the reason.
func TestNoSeed(t *testing.T) {
	t.Parallel()
	s := newSeeds(t)
	whole := s.save("whole.larder", &unstructured.Unstructured{}, nil)
	node := s.save("node.larder", &unstructured.Unstructured{}, func(o *informer.Options) {
		o.Identity.FieldSelector = "spec.nodeName=node1"
	})
	elsewhere := s.save("elsewhere.larder", &unstructured.Unstructured{}, func(o *informer.Options) {
		o.ClusterID = func(context.Context) (string, error) { return "elsewhere", nil }
	})
	unknown := s.save("unknown.larder", &unstructured.Unstructured{}, func(o *informer.Options) { o.ClusterID = nil })
	typed := s.save("typed.larder", &corev1.Pod{}, nil)
	metadata := s.save("metadata.larder", &metav1.PartialObjectMetadata{}, nil)
	transformed := s.save("transformed.larder", &unstructured.Unstructured{}, func(o *informer.Options) {
		o.TransformVersion = "v1"
	})
	for name, tt := range map[string]struct {
		seed   snapshot.Seed
		change func(o *informer.Options)
		want   string
	}{
		"another cluster": {seed: opens(elsewhere), want: "is of the cluster elsewhere, and not of here"},
		"no cluster":      {seed: opens(unknown), want: "does not say of which cluster it is"},
		"part of it":      {seed: opens(node), want: "is selected by the fields spec.nodeName=node1"},
		"transformed":     {seed: opens(transformed), want: "was changed by a transform"},
		"of Go types":     {seed: opens(typed), want: "was written with Go types that may lack fields"},
		"metadata":        {seed: opens(metadata), want: "has metadata only"},
		"another kind": {seed: opens(whole), want: "it has no /v1, Resource=configmaps", change: func(o *informer.Options) {
			o.Identity.Resource = "configmaps"
		}},
		"pinned": {seed: opens(whole), want: "is of the cluster here, and not of there",
			change: func(o *informer.Options) { o.SeedCluster = "there" }},
		"not to be had": {seed: func(context.Context, time.Time) (*snapshot.File, error) {
			return nil, errors.New("from the test")
		}, want: "from the test"},
		"the id is not known": {seed: opens(whole), want: "Options.SeedCluster does not pin it",
			change: func(o *informer.Options) { o.ClusterID = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			i, stop := s.run("store.db", &unstructured.Unstructured{}, func(o *informer.Options) {
				o.Seed = tt.seed
				if tt.change != nil {
					tt.change(o)
				}
			})
			defer stop()
			st := i.Status()
			if st.Seed == nil || st.Seed.Err == nil || !strings.Contains(st.Seed.Err.Error(), tt.want) || st.Seed.Source != "" {
				t.Errorf("seed %+v, want %q", st.Seed, tt.want)
			}
			if want := map[bool]int{true: 60, false: 0}[i.Identity().Resource == "pods"]; st.Objects != want {
				t.Errorf("%d objects", st.Objects)
			}
		})
	}
}

// TestSeedTooOld checks that an informer asks once for a newer seed if the server's history does not reach back to the
// first seed. Then only differing objects are fetched.
func TestSeedTooOld(t *testing.T) {
	t.Parallel()
	for newer, what := range map[bool]string{true: "a newer one", false: "none that is newer"} {
		t.Run(what, func(t *testing.T) {
			s := newSeeds(t)
			old := s.save("old.larder", &unstructured.Unstructured{}, nil)
			for n := range 5 {
				s.write(n, "new")
			}
			s.api.Compact()
			second := old
			if newer {
				second = s.save("new.larder", &unstructured.Unstructured{}, nil)
			}
			s.write(7, "newest")
			before := s.api.Counts(podsResource)
			i, stop := s.run("store.db", &unstructured.Unstructured{}, func(o *informer.Options) { o.Seed = opens(old, second) })
			defer stop()
			st := i.Status()
			lists := s.api.Counts(podsResource).Lists - before.Lists
			if newer && (lists > 0 || st.Seed.Err != nil || st.Seed.Source != second) ||
				!newer && (lists == 0 || st.Seed.Err == nil || st.Reflector.LastRelist != reflector.ReasonExpired) {
				t.Errorf("%d lists, relists %v, seed %+v", lists, st.Reflector.Relists, st.Seed)
			}
			versions := map[string]int{}
			for _, obj := range i.GetStore().List() {
				versions[obj.(*unstructured.Unstructured).GetAnnotations()["version"]]++
			}
			if d := cmp.Diff(map[string]int{"old": 54, "new": 5, "newest": 1}, versions); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestSeedOffline checks that an informer with SeedCluster starts from a seed without the server. Later the server's
// cluster id decides whether the seed stays.
func TestSeedOffline(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"here", "elsewhere"} {
		t.Run(id, func(t *testing.T) {
			s := newSeeds(t)
			path := s.save("seed.larder", &unstructured.Unstructured{}, nil)
			s.api.Stop()
			i, stop := s.run("store.db", &unstructured.Unstructured{}, func(o *informer.Options) {
				o.Seed, o.SeedCluster, o.SyncPolicy = opens(path), "here", informer.Disk
				o.ClusterID = func(ctx context.Context) (string, error) {
					err := s.client.Get().AbsPath("/version").Do(ctx).Error()
					return id, err
				}
			})
			defer stop()
			st := i.Status()
			if len(i.GetStore().ListKeys()) != 60 || st.Source != informer.FromDisk || !st.LastContact.Equal(st.Seed.Taken) {
				t.Errorf("%+v, last contact %v", st.Seed, st.LastContact)
			}
			if err := s.api.Restart(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); i.Status().Source != informer.Live; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("not live: %+v", i.Status())
				}
			}
			relists := i.Status().Reflector.Relists
			if want := id == "elsewhere"; (relists[reflector.ReasonCluster] > 0) != want {
				t.Errorf("relists %v", relists)
			}
		})
	}
}

// TestSeedDamaged checks that the list after a seed that fails halfway corrects its objects.
func TestSeedDamaged(t *testing.T) {
	t.Parallel()
	s := newSeeds(t)
	path := s.save("seed.larder", &unstructured.Unstructured{}, nil)
	s.write(0, "new")
	i, stop := s.run("store.db", &unstructured.Unstructured{}, func(o *informer.Options) {
		o.Seed = cutSeed{opens(path)}
	})
	defer stop()
	st := i.Status()
	if st.Seed == nil || st.Seed.Err == nil || !strings.Contains(st.Seed.Err.Error(), "from the test") {
		t.Errorf("seed %+v", st.Seed)
	}
	if keys := i.GetStore().ListKeys(); len(keys) != 60 || !slices.Contains(keys, "ns0/p00") {
		t.Errorf("%d objects", len(keys))
	}
}

type cutSeed struct{ seed.Source }

func (d cutSeed) Seed(ctx context.Context, want seed.Request) (*seed.Seed, error) {
	sd, err := d.Source.Seed(ctx, want)
	if err != nil {
		return nil, err
	}
	read, n := sd.Objects, 0
	sd.Objects = func(ctx context.Context, fn func(*entry.Undecoded) error) error {
		return read(ctx, func(u *entry.Undecoded) error {
			if n++; n > 10 {
				return errors.New("from the test")
			}
			return fn(u)
		})
	}
	return sd, nil
}
