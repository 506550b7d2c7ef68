package informer_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// forms are the representations in which a server can send pods.
var forms = map[entry.Representation]struct {
	example runtime.Object
	of      func(pod *corev1.Pod) runtime.Object
}{
	entry.Typed: {&corev1.Pod{}, func(pod *corev1.Pod) runtime.Object { return pod }},
	entry.Unstructured: {&unstructured.Unstructured{}, func(pod *corev1.Pod) runtime.Object {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			panic(err)
		}
		return &unstructured.Unstructured{Object: content}
	}},
	entry.Metadata: {&metav1.PartialObjectMetadata{}, func(pod *corev1.Pod) runtime.Object {
		return meta.AsPartialObjectMetadata(pod)
	}},
}

type formed struct {
	TestServer
	of func(pod *corev1.Pod) runtime.Object
}

func (f formed) List(o metav1.ListOptions) (runtime.Object, error) {
	return f.ListWithContext(context.Background(), o)
}

func (f formed) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := f.TestServer.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	pods := list.(*corev1.PodList)
	out := &metav1.List{ListMeta: pods.ListMeta}
	for _, pod := range pods.Items {
		out.Items = append(out.Items, runtime.RawExtension{Object: f.of(pod.DeepCopy())})
	}
	return out, nil
}

func (f formed) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return f.WatchWithContext(context.Background(), o)
}

func (f formed) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := f.TestServer.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(ev watch.Event) (watch.Event, bool) {
		if pod, ok := ev.Object.(*corev1.Pod); ok && ev.Type != watch.Bookmark {
			ev.Object = f.of(pod)
		}
		return ev, true
	}), nil
}

func modify(obj any) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetAnnotations(map[string]string{"modified": "yes"})
		m.SetLabels(map[string]string{"value": "modified"})
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Spec.NodeName = "modified"
	}
}

func unmodified(t *testing.T, what string, obj any) {
	t.Helper()
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	pod, typed := obj.(*corev1.Pod)
	if m.GetLabels()["value"] != "x" || len(m.GetAnnotations()) > 0 || typed && pod.Spec.NodeName != "" {
		t.Errorf("%s: %s is stored as a handler left it: %v %v", what, m.GetName(), m.GetLabels(), m.GetAnnotations())
	}
}

// TestHandlersCannotChangeStoredObjects checks that the file keeps the server's objects although handlers modify the
// objects they receive. Issue 16, A3.
func TestHandlersCannotChangeStoredObjects(t *testing.T) {
	residencies := map[string]store.Residency{"All": store.All, "None": store.None}
	for representation, form := range forms {
		for name, residency := range residencies {
			t.Run(fmt.Sprintf("%s/%s", representation, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv, path := NewTestServer(), filepath.Join(t.TempDir(), "larder.db")
					open := func() (*store.Store, *informer.Informer) {
						quiet := logr.Discard()
						st, err := store.Open(path, store.Options{Logger: &quiet})
						if err != nil {
							t.Fatal(err)
						}
						i, err := informer.New(formed{srv, form.of}, form.example, informer.Options{
							Identity: entry.Identity{
								GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Representation: representation,
							},
							Store: st, Residency: residency, Logger: &quiet, ResyncPeriod: 30 * time.Second,
						})
						if err != nil {
							t.Fatal(err)
						}
						return st, i
					}
					run := func(i *informer.Informer) (stop func()) {
						ctx, cancel := context.WithCancel(t.Context())
						done := make(chan struct{})
						go func() {
							defer close(done)
							i.RunWithContext(ctx)
						}()
						synctest.Wait()
						return func() { cancel(); <-done }
					}
					srv.Write("a/listed", "x")
					srv.Write("a/updated", "old")
					srv.Write("a/deleted", "x")
					st, i := open()
					calls := map[string]int{}
					_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
						AddFunc:    func(obj any) { calls["add"]++; modify(obj) },
						UpdateFunc: func(old, new any) { calls["update"]++; modify(old); modify(new) },
						DeleteFunc: func(obj any) { calls["delete"]++; modify(obj) },
					})
					if err != nil {
						t.Fatal(err)
					}
					again := errors.New("to be repeated in the next process")
					durable := durable.Handler{OnChange: func(_ context.Context, c consumer.Change) error {
						if c.Type == entry.Delete {
							return again
						}
						return nil
					}}
					if _, err := i.Durable().Add("durable", durable); err != nil {
						t.Fatal(err)
					}
					stop := run(i)
					// The changes are made one at a time, because a handler's modification of an object races with the informer's
					// reads.
					srv.Write("a/added", "x")
					synctest.Wait()
					srv.Write("a/updated", "x")
					synctest.Wait()
					srv.Delete("a/deleted")
					synctest.Wait()
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					srv.Write("a/updated", "x")
					synctest.Wait()
					stop()
					if calls["add"] != 4 || calls["update"] < 5 || calls["delete"] != 1 {
						t.Errorf("the handler was called %v", calls)
					}
					if err := st.Close(); err != nil {
						t.Fatal(err)
					}

					st, i = open()
					stored := i.GetIndexer().List()
					if len(stored) != 3 {
						t.Errorf("%d objects are stored", len(stored))
					}
					for _, obj := range stored {
						unmodified(t, "in the next process", obj)
					}
					received := 0
					durable.OnChange = func(_ context.Context, c consumer.Change) error {
						if c.Type == entry.Delete {
							received++
							unmodified(t, "of the delete", c.Object)
						}
						return nil
					}
					if _, err := i.Durable().Add("durable", durable); err != nil {
						t.Fatal(err)
					}
					stop = run(i)
					time.Sleep(time.Minute)
					synctest.Wait()
					if stop(); received != 1 {
						t.Errorf("the delete was received %d times", received)
					}
					if err := st.Close(); err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}

// cacheAnswer decodes the server's answer into the cached object, as client.Update(ctx, cached) does.
func (r *rig) cacheAnswer(key string, answer *corev1.Pod) *corev1.Pod {
	obj, _, err := r.i.GetIndexer().GetByKey(key)
	cached, ok := obj.(*corev1.Pod)
	if err != nil || !ok {
		panic(fmt.Sprint(key, obj, err))
	}
	answer.DeepCopyInto(cached)
	return cached
}

// TestListByMetadataReadsRecords cites issue 37: a program updates a cached object in place and then modifies it. The
// update's event is lost, so the reflector lists metadata. The comparison must use the record in the file, because the
// modified object in memory already has the server's resourceVersion.
func TestListByMetadataReadsRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Residency = store.All
		r.o.ListMetadata, r.o.OpenAPIHash, r.o.PageSize = r.srv.listMetadata, oneSchema, 100
		r.srv.fatten()
		for n := range 20 {
			r.srv.write(fmt.Sprintf("a/p%03d", n), "1")
		}
		r.start(&recorder{})
		r.srv.setFail(func(string, metav1.ListOptions) error { return errors.New("away") })
		r.srv.disconnect()
		r.cacheAnswer("a/p003", r.srv.write("a/p003", "2")).Labels["value"] = "never sent"
		r.srv.compact()
		r.srv.setFail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := r.fetches(); n != 1 {
			t.Errorf("%d objects were fetched", n)
		}
		r.close()
		r.start()
		equal(t, "stored", r.stored(), r.srv.state())
		r.close()
	})
}

// TestUpdateOfAMutatedObject checks the update of a cached object that was modified in place, so that it already has
// the next event's resourceVersion, or another UID. The update is delivered, and is no contradiction.
func TestUpdateOfAMutatedObject(t *testing.T) {
	for name, o := range map[string]informer.Options{
		"All": {Residency: store.All}, "InMemory": {InMemory: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.Residency, r.o.InMemory = o.Residency, o.InMemory
				r.srv.write("a/p", "1")
				r.o.ResyncPeriod = 45 * time.Second
				updates := 0
				r.start(cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, now any) {
					if old != now { // a resync passes one object twice, and does not count
						updates++
					}
				}})
				// A new handler receives every update until the first resync.
				time.Sleep(time.Minute)
				synctest.Wait()
				r.srv.silent = true
				answer := r.srv.write("a/p", "2")
				r.cacheAnswer("a/p", answer).UID = "another"
				r.srv.mu.Lock()
				r.srv.silent = false
				r.srv.sendLocked(watch.Event{Type: watch.Modified, Object: answer})
				r.srv.mu.Unlock()
				time.Sleep(time.Minute)
				synctest.Wait()
				if updates != 1 {
					t.Errorf("the handler received %d updates", updates)
				}
				if relists := r.i.Status().Reflector.Relists; len(relists) != 0 {
					t.Errorf("the server was listed again: %v", relists)
				}
				r.close()
			})
		})
	}
}
