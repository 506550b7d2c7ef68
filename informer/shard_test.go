package informer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/testresidency"
	"github.com/larder-dev/larder/store"
)

var configMapsResource = corev1.SchemeGroupVersion.WithResource("configmaps")

// replica is one of several processes that share a resource. Its file persists between runs.
type replica struct {
	path  string
	shard string
}

// run runs the replica's informer until it has synced. It returns the stored objects ("UID resourceVersion" by key),
// and the informer's status.
func (r replica) run(t *testing.T, api *fakeapi.Server) (held map[string]string, status informer.Status) {
	t.Helper()
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	rc := client.CoreV1().RESTClient()
	defer rc.(*rest.RESTClient).Client.CloseIdleConnections()
	quiet := logr.Discard()
	st, err := store.Open(r.path, store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	id := podsIdentity
	id.ShardSelector = r.shard
	i, err := informer.New(requests.ListWatch(rc, id), &corev1.Pod{},
		informer.Options{Store: st, Identity: id, Logger: &quiet, PageSize: 10, Residency: testresidency.Of(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	defer func() {
		cancel()
		<-done
		if report, err := st.Check(context.Background()); err != nil || len(report.Problems) > 0 {
			t.Errorf("Check: %v, %q", err, report.Problems)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-i.HasSyncedChecker().Done():
	case <-time.After(time.Minute):
		t.Fatalf("not synced: %+v", i.Status())
	}
	held = map[string]string{}
	for _, obj := range i.GetStore().List() {
		p := obj.(*corev1.Pod)
		held[p.Namespace+"/"+p.Name] = string(p.UID) + " " + p.ResourceVersion
	}
	return held, i.Status()
}

type replicas struct {
	t   *testing.T
	api *fakeapi.Server
	dir string
	all []replica
}

// split changes the number of replicas. Existing replicas keep their files.
func (r *replicas) split(of int) {
	r.t.Helper()
	r.all = nil
	for n := range of {
		shard, err := entry.ShardSelector(n, of)
		if err != nil {
			r.t.Fatal(err)
		}
		r.all = append(r.all, replica{filepath.Join(r.dir, fmt.Sprint(n)), shard})
	}
}

// together runs each replica, and checks that their objects together are the server's. It returns the requests, the
// number of lists, and which replicas reported that the server ignores shard selectors.
func (r *replicas) together(what string) (c fakeapi.Counts, lists int, refused []bool) {
	r.t.Helper()
	// As in practice, another resource advances the server's resourceVersion. Otherwise a replica without changes in its
	// shard would get no bookmark.
	must(r.t)(r.api.Create(configMapsResource,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other-" + r.api.RV()}}))
	r.api.ResetCounts()
	all := map[string]string{}
	for n, one := range r.all {
		held, s := one.run(r.t, r.api)
		for key, state := range held {
			if all[key] != "" {
				r.t.Errorf("%s: %s is held twice", what, key)
			}
			all[key] = state
		}
		says := slices.ContainsFunc(s.Unguarded,
			func(line string) bool { return strings.HasPrefix(line, "a shard: the server") })
		refused = append(refused, says)
		if says != (s.Reflector.Unsharded != "") || s.Err != nil || s.Reflector.Skipped != 0 {
			r.t.Errorf("%s: replica %d holds %d, status %+v", what, n, len(held), s)
		}
	}
	c = r.api.Counts(podsResource)
	for _, request := range r.api.Log() {
		if request.Verb == "list" && request.Query.Get("continue") == "" {
			lists++
		}
	}
	if want := podsOf(r.t, r.api); fmt.Sprint(all) != fmt.Sprint(want) {
		r.t.Errorf("%s: the replicas hold\n%v\nthe server has\n%v", what, all, want)
	}
	return c, lists, refused
}

// TestShards checks that replicas store disjoint shards that together are complete, whether or not the server supports
// shard selectors. A changed range of a shard is listed once.
func TestShards(t *testing.T) {
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprintf("gate %v", on), func(t *testing.T) {
			api := fakeapi.New(fakeapi.Options{Sharding: on})
			if err := api.Start(); err != nil {
				t.Fatal(err)
			}
			defer api.Stop()
			pod := func(n int) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("p%03d", n)}}
			}
			for n := range 60 {
				must(t)(api.Create(podsResource, pod(n)))
			}
			r := &replicas{t: t, api: api, dir: t.TempDir()}
			r.split(3)
			c, lists, refused := r.together("cold")
			if on && c.ListedObjects != 60 || !on && c.ListedObjects != 3*60 || lists != 3 || slices.Contains(refused, on) {
				t.Errorf("cold: %d lists, %+v, not sharded %v", lists, c, refused)
			}
			for n := range 20 {
				if err := api.Delete(podsResource, "a", fmt.Sprintf("p%03d", n)); err != nil {
					t.Fatal(err)
				}
				must(t)(api.Create(podsResource, pod(60+n)))
			}
			for n := range 10 {
				must(t)(api.Create(podsResource, pod(n))) // the new UID may be of another shard
			}
			if _, lists, refused := r.together("changed"); lists != 0 || slices.Contains(refused, on) {
				t.Errorf("changed: %d lists, not sharded %v", lists, refused)
			}
			r.split(2)
			if _, lists, _ := r.together("other ranges"); lists != 2 {
				t.Errorf("other ranges: %d lists", lists)
			}
			if _, lists, _ := r.together("again"); lists != 0 {
				t.Errorf("again: %d lists", lists)
			}
		})
	}
}

func podsOf(t *testing.T, api *fakeapi.Server) map[string]string {
	t.Helper()
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range list.Items {
		all[p.Namespace+"/"+p.Name] = string(p.UID) + " " + p.ResourceVersion
	}
	return all
}
