package informer_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

// TestRestartOfAQuietCollection checks that a restart makes two requests, a watch and a list of metadata, after any
// kind of change. HasSynced does not wait for a bookmark, although the server's resourceVersion has advanced. Issue 38,
// A.1.
func TestRestartOfAQuietCollection(t *testing.T) {
	pods, nodes := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("nodes")
	pod := func(name, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name,
			Labels: map[string]string{"version": version}}}
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, s *fakeapi.Server)
	}{
		{name: "quiet", change: func(*testing.T, *fakeapi.Server) {}},
		{name: "updated", change: func(t *testing.T, s *fakeapi.Server) {
			_,
				err := s.Update(pods, pod("2", "new"))
			check(t, err)
		}},
		{name: "created", change: func(t *testing.T, s *fakeapi.Server) {
			_,
				err := s.Create(pods, pod("4", "new"))
			check(t, err)
		}},
		{name: "deleted", change: func(t *testing.T, s *fakeapi.Server) { check(t, s.Delete(pods, "a", "2")) }},
		{name: "created again", change: func(t *testing.T, s *fakeapi.Server) {
			check(t, s.Delete(pods, "a", "2"))
			_, err := s.Create(pods, pod("2", "new"))
			check(t, err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := fakeapi.New(fakeapi.Options{})
			check(t, s.Start())
			defer s.Stop()
			for _, name := range []string{"1", "2", "3"} {
				_, err := s.Create(pods, pod(name, "old"))
				check(t, err)
			}
			file := filepath.Join(t.TempDir(), "pods.db")
			restart(t, s, file)
			tt.change(t, s)
			_, err := s.Create(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "moves-the-resourceVersion-on"}})
			check(t, err)
			s.ResetCounts()
			held, asked := restart(t, s, file)
			want := map[string]string{}
			for _, u := range s.List(pods) {
				want[u.GetName()] = u.GetResourceVersion()
			}
			if !maps.Equal(held, want) {
				t.Errorf("when it had synced it held %v, the server has %v", held, want)
			}
			if len(asked) != 2 || !strings.Contains(asked[0], "watch=true") || strings.Contains(asked[1], "limit=1&") {
				t.Errorf("requests %q, want a watch and a list", asked)
			}
		})
	}
}

// TestNoComparisonOfAnotherShard checks that a start stops the comparison after the first page if the server ignores
// the shard selector, and so has many more objects than are stored.
func TestNoComparisonOfAnotherShard(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	s := fakeapi.New(fakeapi.Options{})
	check(t, s.Start())
	defer s.Stop()
	for n := range 3000 {
		_, err := s.Create(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: more(n)}})
		check(t, err)
	}
	file := filepath.Join(t.TempDir(), "pods.db")
	shard := entry.Identity{
		GroupVersionResource: pods,
		ShardSelector:        "shardRange(object.metadata.uid, '0x0000000000000000', '0x0200000000000000')",
	}
	held, _ := restartOf(t, s, file, shard)
	if len(held) == 0 || len(held) > 500 {
		t.Fatalf("the shard has %d objects", len(held))
	}
	_, err := s.Create(corev1.SchemeGroupVersion.WithResource("nodes"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "moves-the-resourceVersion-on"}})
	check(t, err)
	s.ResetCounts()
	_, asked := restartOf(t, s, file, shard)
	compared := slices.DeleteFunc(asked, func(r string) bool {
		return strings.Contains(r, "watch=true") || strings.Contains(r, "limit=1&") || strings.HasSuffix(r, "limit=1")
	})
	if len(compared) != 1 {
		t.Errorf("%d pages were asked for, such as %q", len(compared), compared[:min(3, len(compared))])
	}
}

func more(n int) string { return fmt.Sprintf("more-%05d", n) }

// restart runs an informer on the store file until it has synced. It returns the informer's objects at that time
// (resourceVersion by name), and its requests in order.
func restart(t *testing.T, s *fakeapi.Server, file string) (held map[string]string, asked []string) {
	t.Helper()
	return restartOf(t, s, file, entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
}

// restartOf is restart for an informer of the given identity.
func restartOf(
	t *testing.T, s *fakeapi.Server, file string, id entry.Identity,
) (held map[string]string, asked []string) {
	t.Helper()
	quiet := logr.Discard()
	st, err := store.Open(file, store.Options{Logger: &quiet})
	check(t, err)
	defer func() { check(t, st.Close()) }()
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().RESTClient()
	before := len(s.Requests())
	inf, err := informer.New(requests.ListWatch(client, id), &corev1.Pod{}, informer.Options{
		Store: st, Identity: id, Logger: &quiet,
	})
	check(t, err)
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() { defer close(done); inf.Run(stop) }()
	<-inf.HasSyncedChecker().Done()
	held = map[string]string{}
	for _, obj := range inf.GetStore().List() {
		p := obj.(*corev1.Pod)
		held[p.Name] = p.ResourceVersion
	}
	asked = s.Requests()[before:]
	close(stop)
	<-done
	return held, asked
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
