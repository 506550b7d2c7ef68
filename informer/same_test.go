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

// TestRestartOfAQuietCollection: a collection is compared with the server's by its metadata. If nothing has changed,
// HasSynced waits for no bookmark, although the server's resourceVersion has moved on; if something has, it is there
// when HasSynced says so. Issue 16, C.
func TestRestartOfAQuietCollection(t *testing.T) {
	pods, nodes := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("nodes")
	pod := func(name, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name,
			Labels: map[string]string{"version": version}}}
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, s *fakeapi.Server)
		quiet  bool
	}{
		{name: "quiet", change: func(*testing.T, *fakeapi.Server) {}, quiet: true},
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
			held, probed := restart(t, s, file)
			want := map[string]string{}
			for _, u := range s.List(pods) {
				want[u.GetName()] = u.GetResourceVersion()
			}
			if !maps.Equal(held, want) {
				t.Errorf("when it had synced it held %v, the server has %v", held, want)
			}
			if probed == tt.quiet {
				t.Errorf("probed: %t", probed)
			}
		})
	}
}

// TestNoComparisonOfAnotherShard: where the server ignores the shard selector, the first page shows that most of what
// is listed is not held, and no other is asked for.
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
	restartOf(t, s, file, shard)
	compared := slices.DeleteFunc(s.Requests(), func(r string) bool {
		return !strings.Contains(r, "timeoutSeconds=1&") && !strings.HasSuffix(r, "timeoutSeconds=1")
	})
	if len(compared) != 1 {
		t.Errorf("%d pages were asked for, such as %q", len(compared), compared[:min(3, len(compared))])
	}
}

// more is the name of the n-th of many.
func more(n int) string { return fmt.Sprintf("more-%05d", n) }

// restart runs an informer on the file until it has synced. It returns what the informer held then, and whether it had
// to look objects up, or to probe the server.
func restart(t *testing.T, s *fakeapi.Server, file string) (held map[string]string, probed bool) {
	t.Helper()
	return restartOf(t, s, file, entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
}

// restartOf is restart with an informer of that identity.
func restartOf(t *testing.T, s *fakeapi.Server, file string, id entry.Identity) (held map[string]string, probed bool) {
	t.Helper()
	quiet := logr.Discard()
	st, err := store.Open(file, store.Options{Logger: &quiet})
	check(t, err)
	defer func() { check(t, st.Close()) }()
	config := s.Config()
	client := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
	inf, err := informer.New(requests.ListWatch(client, id), &corev1.Pod{}, informer.Options{
		Store: st, Identity: id, Logger: &quiet,
	})
	check(t, err)
	done := make(chan struct{})
	before := len(s.Requests())
	stop := make(chan struct{})
	go func() { defer close(done); inf.Run(stop) }()
	<-inf.HasSyncedChecker().Done()
	held = map[string]string{}
	for _, obj := range inf.GetStore().List() {
		p := obj.(*corev1.Pod)
		held[p.Name] = p.ResourceVersion
	}
	probed = slices.ContainsFunc(s.Requests()[before:],
		func(r string) bool { return strings.Contains(r, "limit=1&") || strings.HasSuffix(r, "limit=1") })
	close(stop)
	<-done
	return held, probed
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
