package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

type handlerCalls struct {
	mu                      sync.Mutex
	added, updated, deleted int
}

func (h *handlerCalls) note(n *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
}

func (h *handlerCalls) OnAdd(any, bool)   { h.note(&h.added) }
func (h *handlerCalls) OnUpdate(_, _ any) { h.note(&h.updated) }
func (h *handlerCalls) OnDelete(any)      { h.note(&h.deleted) }

func (h *handlerCalls) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%d added, %d updated, %d deleted", h.added, h.updated, h.deleted)
}

func runInformer(t *testing.T, srv *fakeapi.Server, path, want string) informer.Status {
	t.Helper()
	client, err := kubernetes.NewForConfig(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path)
	rest := client.CoreV1().RESTClient()
	i, err := informer.New(requests.ListWatch(rest, savedPods), &corev1.Pod{}, informer.Options{
		Store: s, Identity: savedPods, ClusterID: requests.KubeSystemUID(rest),
		OpenAPIHash: requests.OpenAPIHash(rest, corev1.SchemeGroupVersion), Logger: &quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &handlerCalls{}
	if _, err := i.AddEventHandler(h); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); i.RunWithContext(ctx) }()
	defer func() { cancel(); <-done }()
	if !cache.WaitForCacheSync(t.Context().Done(), i.HasSynced) {
		t.Fatal("not synced")
	}
	for until := time.Now().Add(30 * time.Second); h.String() != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the handler got %s, want %s", h, want)
		}
	}
	status := i.Status()
	cancel()
	<-done
	wantServed(t, snapshot.StoreSource(s), savedPods, servedState(srv, "pods"))
	wantSound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return status
}

// TestRestoredStoreResumes checks that an informer on a restored store delivers the changes since the snapshot without
// a list. On a redacted snapshot it must list.
func TestRestoredStoreResumes(t *testing.T) {
	srv := startServer(t)
	dir := t.TempDir()
	db, path := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.larder")
	runInformer(t, srv, db, fmt.Sprintf("%d added, 0 updated, 0 deleted", servedPods))
	if _, err := saveFile(t, db, path, store.Options{}, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		churn(t, srv, n+1)
	}
	srv.ResetCounts()
	restored := filepath.Join(dir, "b.db")
	o := snapshot.RestoreOptions{Import: store.ImportOptions{Store: store.Options{Logger: &quiet}}}
	if _, err := snapshot.Restore(t.Context(), path, restored, o); err != nil {
		t.Fatal(err)
	}
	status := runInformer(t, srv, restored, fmt.Sprintf("%d added, 3 updated, 3 deleted", servedPods+3))
	// Options.Compare of the reflector lists the metadata of all pods, which counts as a list.
	if counts := srv.Counts(savedPods.GroupVersionResource); counts.Lists != 0 || counts.Compares > 1 ||
		counts.ListedObjects > servedPods+10 || counts.SentEvents < 9 || counts.SentEvents > 9*counts.Watches {
		t.Errorf("%+v", counts)
	}
	if status.Reflector.Resumes == 0 || !status.Synced {
		t.Errorf("%+v", status)
	}

	redacted := filepath.Join(dir, "c.db")
	part := mustPart(t, path, snapshot.SelectOptions{Redaction: snapshot.Redaction{Annotations: []string{"note"}}})
	if _, err := snapshot.Restore(t.Context(), part, redacted, o); err != nil {
		t.Fatal(err)
	}
	srv.ResetCounts()
	// Redacted objects are not delivered to handlers, which see an empty store, and then the objects of the list.
	runInformer(t, srv, redacted, fmt.Sprintf("%d added, 0 updated, 0 deleted", servedPods))
	if counts := srv.Counts(savedPods.GroupVersionResource); counts.Lists == 0 {
		t.Errorf("%+v", counts)
	}
	s := mustOpen(t, redacted)
	codec := mustCodec(t, &corev1.Pod{})
	for _, r := range recordsOf(t, snapshot.StoreSource(s), savedPods) {
		obj, err := codec.Decode(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if obj.(*corev1.Pod).Annotations["note"] == redactedText {
			t.Fatalf("%s is still redacted", r.Key)
		}
	}
}

// TestRestoredPartDoesNotSync checks that an informer with SyncPolicy Disk does not serve filtered or redacted objects.
func TestRestoredPartDoesNotSync(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.larder")
	if _, err := snapshot.SaveStore(t.Context(), savedStore(t, filepath.Join(dir, "a.db")), whole,
		snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	redact := snapshot.SelectOptions{Redaction: snapshot.Redaction{Annotations: []string{"note"}}}
	before, twice := filepath.Join(dir, "redacted.larder"), filepath.Join(dir, "twice.larder")
	s, _ := mustRestore(t, mustPart(t, whole, redact), snapshot.RestoreOptions{})
	if _, err := snapshot.SaveStore(t.Context(), s, twice, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.SaveStore(t.Context(), savedStore(t, filepath.Join(dir, "b.db")), before,
		snapshot.SaveOptions{SelectOptions: redact}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		path   string
		synced bool
	}{
		"whole":              {whole, true},
		"redacted after":     {mustPart(t, whole, redact), false},
		"redacted before":    {before, false},
		"redacted twice ago": {twice, false},
		"filtered": {
			mustPart(t, whole, snapshot.SelectOptions{Filter: snapshot.Filter{Namespaces: []string{"ns-1"}}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := mustRestore(t, tc.path, snapshot.RestoreOptions{})
			path := s.Path()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			h := &handlerCalls{}
			synctest.Test(t, func(t *testing.T) {
				s := mustOpen(t, path)
				refused := errors.New("connection refused")
				i, err := informer.New(&cache.ListWatch{
					ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, refused },
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, refused },
				}, &corev1.Pod{}, informer.Options{Store: s, Identity: savedPods, SyncPolicy: informer.Disk, Logger: &quiet})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := i.AddEventHandler(h); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); i.RunWithContext(ctx) }()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if i.HasSynced() != tc.synced {
					t.Errorf("synced: %v", !tc.synced)
				}
				cancel()
				<-done
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
			if (h.String() == "0 added, 0 updated, 0 deleted") == tc.synced {
				t.Errorf("a handler got %s", h)
			}
		})
	}
}
