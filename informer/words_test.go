package informer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
)

// registration is a handler registration that belongs to no informer.
type registration struct{}

func (registration) HasSynced() bool                     { return false }
func (registration) HasSyncedChecker() cache.DoneChecker { return nil }

// worded describes a call that fails, when to make it, and the words of client-go's error.
type worded struct {
	when  string
	words string
	call  func(i cache.SharedIndexInformer) error
}

const (
	before, running, stopped = "before the start", "while it runs", "after the end"

	conflict   = "indexer conflict: map[namespace:{}]"
	noIndex    = "Index with name none does not exist"
	noKey      = "couldn't create key for object "
	noMeta     = "object has no meta: "
	hasStarted = "informer has already started"
	hasStopped = "has stopped already"
)

// wordedCalls returns a failing call for each method of informers, indexers and registrations that returns an error.
func wordedCalls() map[string]worded {
	taken := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	free := cache.Indexers{"free": cache.MetaNamespaceIndexFunc}
	of := func(call func(cache.Indexer) error) func(cache.SharedIndexInformer) error {
		return func(i cache.SharedIndexInformer) error { return call(i.GetIndexer()) }
	}
	keyed := func(err error) error {
		if key := (cache.KeyError{}); !errors.As(err, &key) {
			return errors.New("no cache.KeyError")
		}
		return err
	}
	return map[string]worded{
		"AddIndexers":       {before, conflict, func(i cache.SharedIndexInformer) error { return i.AddIndexers(taken) }},
		"AddIndexers, late": {running, conflict, func(i cache.SharedIndexInformer) error { return i.AddIndexers(taken) }},
		"AddIndexers, stopped": {stopped, "indexer was not added because it " + hasStopped,
			func(i cache.SharedIndexInformer) error { return i.AddIndexers(free) }},
		"Indexer.AddIndexers": {before, conflict, of(func(i cache.Indexer) error { return i.AddIndexers(taken) })},
		"Index": {running, noIndex, of(func(i cache.Indexer) error {
			_, err := i.Index("none", &corev1.Pod{})
			return err
		})},
		"Index of no object": {running, noMeta, of(func(i cache.Indexer) error {
			_, err := i.Index(cache.NamespaceIndex, "text")
			return err
		})},
		"IndexKeys": {running, noIndex, of(func(i cache.Indexer) error {
			_, err := i.IndexKeys("none", "a")
			return err
		})},
		"ByIndex": {running, noIndex, of(func(i cache.Indexer) error {
			_, err := i.ByIndex("none", "a")
			return err
		})},
		"Add":     {running, noKey, of(func(i cache.Indexer) error { return keyed(i.Add("text")) })},
		"Update":  {running, noMeta, of(func(i cache.Indexer) error { return keyed(i.Update("text")) })},
		"Delete":  {running, noMeta, of(func(i cache.Indexer) error { return keyed(i.Delete("text")) })},
		"Replace": {running, noMeta, of(func(i cache.Indexer) error { return keyed(i.Replace([]any{"text"}, "1")) })},
		"Get": {running, noMeta, of(func(i cache.Indexer) error {
			_, _, err := i.Get("text")
			return keyed(err)
		})},
		"SetTransform": {running, hasStarted, func(i cache.SharedIndexInformer) error { return i.SetTransform(nil) }},
		"SetWatchErrorHandler": {running, hasStarted,
			func(i cache.SharedIndexInformer) error { return i.SetWatchErrorHandler(nil) }},
		"SetWatchErrorHandlerWithContext": {running, hasStarted,
			func(i cache.SharedIndexInformer) error { return i.SetWatchErrorHandlerWithContext(nil) }},
		"AddEventHandler": {stopped, "was not added to shared informer because it " + hasStopped,
			func(i cache.SharedIndexInformer) error {
				_, err := i.AddEventHandler(&recorder{})
				return err
			}},
		"AddEventHandlerWithResyncPeriod": {stopped, "was not added to shared informer because it " + hasStopped,
			func(i cache.SharedIndexInformer) error {
				_, err := i.AddEventHandlerWithResyncPeriod(&recorder{}, time.Hour)
				return err
			}},
		"AddEventHandlerWithOptions": {stopped, "was not added to shared informer because it " + hasStopped,
			func(i cache.SharedIndexInformer) error {
				_, err := i.AddEventHandlerWithOptions(&recorder{}, cache.HandlerOptions{})
				return err
			}},
		"RemoveEventHandler": {running, "invalid key type ",
			func(i cache.SharedIndexInformer) error { return i.RemoveEventHandler(registration{}) }},
		"ShutDownEventHandler": {running, "invalid key type ",
			func(i cache.SharedIndexInformer) error { return cache.ShutDownEventHandler(i, registration{}) }},
	}
}

// TestWordsOfErrors checks that an informer's errors contain the words of client-go's errors, by which programs
// recognize them. It covers all errors of tools/cache that a call of an informer returns. Issue 38.
func TestWordsOfErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		ours, err := informer.New(newServer(), &corev1.Pod{}, informer.Options{Identity: podsIdentity, InMemory: true,
			Indexers: indexers, Logger: &discard})
		if err != nil {
			t.Fatal(err)
		}
		informers := map[string]cache.SharedIndexInformer{
			"client-go": cache.NewSharedIndexInformer(newServer(), &corev1.Pod{}, 0, indexers), "larder": ours,
		}
		for name, i := range informers {
			ctx, cancel := context.WithCancel(t.Context())
			for _, when := range []string{before, running, stopped} {
				switch when {
				case running:
					go i.RunWithContext(ctx)
					time.Sleep(time.Minute)
				case stopped:
					cancel()
					time.Sleep(time.Minute)
				}
				for call, w := range wordedCalls() {
					if w.when != when {
						continue
					}
					if err := w.call(i); err == nil || !strings.Contains(err.Error(), w.words) {
						t.Errorf("%s: %s: %v does not say %q", name, call, err, w.words)
					}
				}
			}
			cancel()
		}
	})
}

// TestWordsOfLists checks that errors passed to utilruntime's error handlers have client-go's words: after a failed
// list, and for an object that a transform refuses.
func TestWordsOfLists(t *testing.T) {
	old := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = old }()
	bubble(t, func(t *testing.T) {
		var errs []string
		utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
			func(_ context.Context, err error, _ string, _ ...any) { errs = append(errs, err.Error()) }}
		srv := newServer()
		srv.write("a/1", "x")
		srv.setFail(func(verb string, _ metav1.ListOptions) error {
			if verb == "list" {
				return errors.New("not yet")
			}
			return nil
		})
		i, err := informer.New(srv, &corev1.Pod{}, informer.Options{Identity: podsIdentity, InMemory: true, Logger: &discard})
		if err == nil {
			err = i.SetTransform(func(any) (any, error) { return nil, errors.New("not this") })
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go i.RunWithContext(ctx)
		time.Sleep(time.Minute)
		srv.setFail(nil)
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		for _, want := range []string{"failed to list *v1.Pod: not yet", "couldn't enqueue object: "} {
			if !slices.ContainsFunc(errs, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("no error says %q: %q", want, errs)
			}
		}
	})
}
