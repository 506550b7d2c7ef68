package informer_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

var sessionPods = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}

type noted struct{ note func(string) }

func (n noted) Start(<-chan struct{}) { n.note("start") }
func (n noted) Shutdown()             { n.note("shutdown") }

// TestRunClosesInOrder checks that informer.Run waits for the informers, then for the factories, while the store is
// open. The store is closed, with all changes committed, when Run returns. Issue 16, B7.
func TestRunClosesInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	failed := errors.New("failed")
	var inf *informer.Informer
	var notes []string
	err := informer.Run(t.Context(), path, store.Options{}, func(ctx context.Context, s *informer.Session) error {
		client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-1"}})
		var err error
		inf, err = informer.New(requests.ClientListWatch(client.CoreV1().Pods(""), sessionPods), &corev1.Pod{},
			informer.Options{
				Store: s.Store, Identity: sessionPods,
			})
		if err != nil {
			return err
		}
		s.Start(inf)
		s.StartFactories(noted{func(what string) {
			notes = append(notes, what)
			select {
			case <-s.Store.Closing():
				t.Errorf("at %s the store is being closed", what)
			default:
			}
			if what == "shutdown" && (ctx.Err() == nil || !inf.IsStopped()) {
				t.Errorf("at the shutdown the context says %v, the informer is stopped: %t", ctx.Err(), inf.IsStopped())
			}
		}})
		if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
			t.Error("did not sync")
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("Run returned %v", err)
	}
	if want := []string{"start", "shutdown"}; !slices.Equal(notes, want) {
		t.Errorf("the factory received %q, want %q", notes, want)
	}

	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if infos, err := st.Collections(t.Context()); err != nil || len(infos) != 1 || infos[0].Objects != 1 {
		t.Errorf("stored: %+v, %v; want one collection of one pod", infos, err)
	}
}

func TestRunWithoutAStore(t *testing.T) {
	path := t.TempDir()
	err := informer.Run(t.Context(), path, store.Options{}, func(context.Context, *informer.Session) error {
		t.Error("the program runs")
		return nil
	})
	if err == nil {
		t.Error("no error")
	}
}
