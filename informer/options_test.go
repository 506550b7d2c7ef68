package informer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

func watchModified(p *corev1.Pod) watch.Event { return watch.Event{Type: watch.Modified, Object: p} }

func TestNewRefuses(t *testing.T) {
	pod, id := &corev1.Pod{}, podsIdentity
	for name, try := range map[string]func() (*informer.Informer, error){
		"no ListerWatcher": func() (*informer.Informer, error) {
			return informer.New(nil, pod, informer.Options{InMemory: true, Identity: id})
		},
		"no example": func() (*informer.Informer, error) {
			return informer.New(newServer(), nil, informer.Options{InMemory: true, Identity: id})
		},
		"no resource": func() (*informer.Informer, error) {
			return informer.New(newServer(), pod, informer.Options{InMemory: true})
		},
		"no store": func() (*informer.Informer, error) {
			return informer.New(newServer(), pod, informer.Options{Identity: id})
		},
		"unknown policy": func() (*informer.Informer, error) {
			return informer.New(newServer(), pod, informer.Options{InMemory: true, Identity: id, SyncPolicy: "Soon"})
		},
		"negative page size": func() (*informer.Informer, error) {
			return informer.New(newServer(), pod, informer.Options{InMemory: true, Identity: id, PageSize: -1})
		},
		"negative resync period": func() (*informer.Informer, error) {
			return informer.New(newServer(), pod, informer.Options{InMemory: true, Identity: id, ResyncPeriod: -1})
		},
	} {
		if i, err := try(); err == nil || i != nil {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
}

func TestBeforeRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.srv.write("b/1", "x")
		r.start()
		r.close()
		i := r.open()
		if len(r.stored()) != 2 || i.HasSynced() || i.LastSyncResourceVersion() != "" || i.GetController().HasSynced() {
			t.Errorf("store %q, synced %v, resourceVersion %q", r.stored(), i.HasSynced(), i.LastSyncResourceVersion())
		}
		if s := i.Status(); s.Source != informer.FromDisk || s.ResourceVersion != "102" || s.Objects != 2 ||
			s.LastContact.IsZero() || !s.Persistent {
			t.Errorf("status: %+v", s)
		}
		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		if err := i.AddIndexers(byNamespace); err != nil {
			t.Fatal(err)
		}
		r.run()
		objs, err := i.GetIndexer().ByIndex(cache.NamespaceIndex, "b")
		if err != nil || len(objs) != 1 {
			t.Errorf("index: %v, %v", objs, err)
		}
		if err := i.AddIndexers(cache.Indexers{"late": func(any) ([]string, error) {
			return []string{"all"},
				nil
		}}); err != nil {
			t.Fatal(err)
		}
		if objs, err := i.GetIndexer().ByIndex("late", "all"); err != nil || len(objs) != 2 {
			t.Errorf("index that was added late: %v, %v", objs, err)
		}
		if c := i.GetController(); c.LastSyncResourceVersion() != "102" || !c.HasSynced() ||
			!cache.IsDone(c.HasSyncedChecker()) {
			t.Errorf("controller: %q, %v", c.LastSyncResourceVersion(), c.HasSynced())
		}
		r.close()
	})
}

// TestAddIndexersWaits checks that AddIndexers waits for the build of an index only if the informer runs, and that
// neither the sync nor reads by key wait for a build at the start.
func TestAddIndexersWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Residency = store.None
		r.srv.write("a/1", "x")
		r.start()
		r.close()
		i, proceed := r.open(), make(chan struct{})
		all := func(any) ([]string, error) {
			<-proceed
			return []string{"all"}, nil
		}
		if err := i.AddIndexers(cache.Indexers{"early": all}); err != nil {
			t.Fatal(err)
		}
		r.run()
		if obj, found, err := i.GetStore().GetByKey("a/1"); !i.HasSynced() || !found {
			t.Errorf("while an index is being built: synced %v, read %v, %v", i.HasSynced(), obj, err)
		}
		added, found := make(chan error, 1), make(chan int, 1)
		go func() { added <- i.AddIndexers(cache.Indexers{"late": all}) }()
		go func() {
			objs, _ := i.GetIndexer().ByIndex("early", "all")
			found <- len(objs)
		}()
		synctest.Wait()
		if len(added) != 0 || len(found) != 0 {
			t.Errorf("before an index was built, AddIndexers returned (%d), and a look-up in it (%d)", len(added), len(found))
		}
		close(proceed)
		if err, n := <-added, <-found; err != nil || n != 1 {
			t.Errorf("AddIndexers: %v; found %d", err, n)
		}
		r.close()
	})
}

// TestTransformErrors checks that an object whose transform fails keeps its older stored state until its delete is
// delivered. Handlers get no call for an object that was never stored.
func TestTransformErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		transform := func(obj any) (any, error) {
			switch p := obj.(*corev1.Pod); p.Labels["value"] {
			case "bad":
				return nil, errors.New("from the test")
			case "wrong":
				return "not an object", nil
			case "strip":
				p = p.DeepCopy()
				p.Labels["value"] = "stripped"
				return p, nil
			}
			return obj, nil
		}
		r := newRig(t)
		r.o.TransformVersion = informer.Unversioned
		r.srv.write("a/1", "bad")
		r.srv.write("a/2", "strip")
		h := &recorder{}
		i := r.open()
		if err := i.SetTransform(transform); err != nil {
			t.Fatal(err)
		}
		r.run(h)
		r.srv.write("a/2", "bad")
		r.srv.write("a/3", "wrong")
		r.srv.write("a/4", "x")
		synctest.Wait()
		equal(t, "calls", h.take(), []string{"add a/2@102=stripped initial", "add a/4@105=x"})
		equal(t, "store", r.stored(), []string{"a/2@102=stripped", "a/4@105=x"})
		if s := i.Status(); s.Skipped != 3 || s.ResourceVersion != "105" {
			t.Errorf("skipped %d, resourceVersion %s", s.Skipped, s.ResourceVersion)
		}
		r.srv.compact() // the list must not treat a/2, whose transform fails, as deleted
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "calls of the list", h.take(), nil)
		r.srv.delete("a/2")
		synctest.Wait()
		equal(t, "calls of the delete", h.take(), []string{"gone a/2 last a/2@102=stripped"})
		for _, key := range []string{"a/1", "a/3"} {
			r.srv.delete(key)
		}
		synctest.Wait()
		equal(t, "calls of the deletes of what was not stored", h.take(), nil)
		if s := i.Status(); s.Skipped != 6 || s.ResourceVersion != "108" {
			t.Errorf("skipped %d, resourceVersion %s", s.Skipped, s.ResourceVersion)
		}
		r.close()
	})
}

func TestWatchErrorHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.setFail(refuse)
		i := r.open()
		calls := 0
		err := i.SetWatchErrorHandlerWithContext(func(ctx context.Context, rf *cache.Reflector, err error) {
			calls++
			if rf == nil || rf.TypeDescription() != "*v1.Pod" || rf.Name() == "" || err == nil || ctx == nil {
				t.Errorf("called with %v, %v", rf, err)
			}
			cache.DefaultWatchErrorHandler(ctx, rf, err) // client-go's handler dereferences the Reflector rf
		})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		time.Sleep(time.Minute)
		r.close()
		if calls == 0 {
			t.Error("not called")
		}
	})
}

type secretServer struct{ *server }

func (s secretServer) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s secretServer) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: []corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s-e-c-r-e-t", ResourceVersion: "99", UID: "u"},
		Data:       map[string][]byte{"password": []byte("h-u-n-t-e-r-2")},
	}}}, nil
}

func TestSecretsStayInMemory(t *testing.T) {
	for _, persist := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			quiet := logr.Discard()
			st, err := store.Open(r.path, store.Options{Logger: &quiet})
			if err != nil {
				t.Fatal(err)
			}
			i, err := informer.New(secretServer{r.srv}, &corev1.Secret{}, informer.Options{
				Store: st, PersistSecrets: persist, Logger: &quiet, Residency: r.o.Residency,
				Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")},
			})
			if err != nil {
				t.Fatal(err)
			}
			r.st, r.i = st, i
			r.run()
			if n := len(i.GetStore().List()); n != 1 || !i.HasSynced() {
				t.Errorf("%d objects, synced %v", n, i.HasSynced())
			}
			if s := i.Status(); s.Persistent != persist || (s.NotPersistent == "") != persist {
				t.Errorf("persist %v: status %+v", persist, s)
			}
			r.close()
			data, err := os.ReadFile(r.path)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{"s-e-c-r-e-t", "h-u-n-t-e-r-2"} {
				if bytes.Contains(data, []byte(word)) != persist {
					t.Errorf("persist %v: the file contains %q: %v", persist, word, !persist)
				}
			}
		})
	}
}

func TestSecretsAreSealed(t *testing.T) {
	for _, resource := range []string{"secrets", "things"} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			keys := newKeys(t)
			quiet := logr.Discard()
			st, err := store.Open(r.path, store.Options{Logger: &quiet, Encryption: &seal.Encryption{Keys: keys}})
			if err != nil {
				t.Fatal(err)
			}
			i, err := informer.New(secretServer{r.srv}, &corev1.Secret{}, informer.Options{
				Store: st, Logger: &quiet, Residency: r.o.Residency,
				Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource)},
			})
			if err != nil {
				t.Fatal(err)
			}
			r.st, r.i = st, i
			r.run()
			if n := len(i.GetStore().List()); n != 1 || !i.HasSynced() {
				t.Errorf("%d objects, synced %v", n, i.HasSynced())
			}
			if s := i.Status(); !s.Persistent || !s.Sealed || s.PlainText {
				t.Errorf("status %+v", s)
			}
			r.close()
			data, err := os.ReadFile(r.path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(data, []byte("s-e-c-r-e-t")) { // the store does not encrypt names
				t.Error("nothing of it is in the file")
			}
			if bytes.Contains(data, []byte("h-u-n-t-e-r-2")) {
				t.Error("the file holds the password")
			}
		})
	}
}

// TestSealedSecretsWithoutAKey checks that New fails without the key, instead of listing the Secrets and storing them
// in plain text, and that its error says what to do.
func TestSealedSecretsWithoutAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		quiet := logr.Discard()
		keys := newKeys(t)
		id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
		for _, encryption := range []*seal.Encryption{{Keys: keys}, nil} {
			st, err := store.Open(r.path, store.Options{Logger: &quiet, Encryption: encryption})
			if err != nil {
				t.Fatal(err)
			}
			i, err := informer.New(secretServer{r.srv}, &corev1.Secret{},
				informer.Options{Store: st, Logger: &quiet, PersistSecrets: true, Identity: id})
			if encryption == nil {
				if !errors.Is(err, seal.ErrSealed) || !strings.Contains(err.Error(), "it needs key") {
					t.Errorf("without a key: %v", err)
				}
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			r.st, r.i = st, i
			r.run()
			r.close()
		}
	})
}

func TestInMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := newServer()
		srv.write("a/1", "x")
		quiet := logr.Discard()
		i, err := informer.New(srv, &corev1.Pod{}, informer.Options{InMemory: true, Identity: podsIdentity, Logger: &quiet})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, srv: srv, i: i}
		h := &recorder{}
		r.run(h)
		srv.delete("a/1")
		synctest.Wait()
		equal(t, "calls", h.take(), []string{"add a/1@101=x initial", "delete a/1@102=x"})
		if s := i.Status(); s.Persistent || !strings.Contains(s.NotPersistent, "InMemory") || s.Source != informer.Live {
			t.Errorf("status: %+v", s)
		}
		r.stop()
	})
}

func newKeys(t *testing.T) *seal.Keys {
	t.Helper()
	line, err := seal.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := seal.ParseKeys([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestWatchErrorHandlerSeesTheResourceVersion checks the Reflector that watch error handlers receive. Its
// resourceVersion must be the informer's, because programs take a non-empty one for "has synced". Issue 38.
func TestWatchErrorHandlerSeesTheResourceVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.setFail(refuse)
		i := r.open()
		var seen []string
		err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, rf *cache.Reflector, _ error) {
			if got, want := rf.LastSyncResourceVersion(), i.LastSyncResourceVersion(); got != want {
				t.Errorf("resourceVersion %q, want %q", got, want)
			}
			if rv := rf.LastSyncResourceVersion(); len(seen) == 0 || seen[len(seen)-1] != rv {
				seen = append(seen, rv)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		time.Sleep(time.Minute)
		for n := range 2 {
			r.srv.setFail(nil)
			time.Sleep(time.Minute)
			r.srv.write("a/x", strconv.Itoa(n))
			time.Sleep(time.Second)
			r.srv.setFail(refuse)
			r.srv.disconnect()
			time.Sleep(time.Minute)
		}
		r.close()
		if len(seen) != 3 || seen[0] != "" || seen[1] == "" || seen[2] == seen[1] {
			t.Errorf("resourceVersions %q", seen)
		}
	})
}
