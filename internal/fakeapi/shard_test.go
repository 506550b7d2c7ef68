package fakeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

var shards = []string{
	"shardRange(object.metadata.uid, '0x0000000000000000', '0x3000000000000000') || shardRange(object.metadata.uid, " +
		"'0xf000000000000000', '0x10000000000000000')",
	"shardRange(object.metadata.uid, '0x3000000000000000', '0x9000000000000000')",
	"shardRange(object.metadata.uid,'0x9000000000000000','0xf000000000000000')",
}

// TestShards checks that lists and watches of the shards are disjoint and cover all objects. Without the feature gate,
// every shard has all objects.
func TestShards(t *testing.T) {
	for _, contentType := range contentTypes {
		for _, on := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, gate %v", contentType, on), func(t *testing.T) {
				s := start(t, Options{Sharding: on})
				load(t, s, 40)
				from := s.RV()
				for i := range 20 {
					must(t, s.Load(podsGVR, pod("default", fmt.Sprintf("late-%d", i), nil)))
					must(t, s.Delete(podsGVR, "default", fmt.Sprintf("pod-%05d", i)))
				}
				pods := typed(t, s, contentType).CoreV1().Pods("default")
				listed, watched := map[string]int{}, map[string]int{}
				for _, shard := range shards {
					listShard(t, pods, shard, on, listed)
					watchShard(t, s, pods, metav1.ListOptions{ShardSelector: shard, ResourceVersion: from}, watched)
				}
				for what, seen := range map[string]map[string]int{"listed": listed, "watched": watched} {
					if len(seen) != 40 {
						t.Errorf("%d were %s", len(seen), what)
					}
					for name, n := range seen {
						if on && n != 1 || !on && n != len(shards) {
							t.Errorf("%s was %s %d times", name, what, n)
						}
					}
				}
			})
		}
	}
}

func listShard(t *testing.T, pods v1.PodInterface, shard string, on bool, seen map[string]int) {
	t.Helper()
	o := metav1.ListOptions{ShardSelector: shard, Limit: 4}
	for {
		list, err := pods.List(testContext(t), o)
		must(t, err)
		if said := list.ShardInfo != nil; said != on || said &&
			strings.ReplaceAll(list.ShardInfo.Selector, " ", "") != strings.ReplaceAll(shard, " ", "") {
			t.Errorf("the list says %+v", list.ShardInfo)
		}
		if on && list.RemainingItemCount != nil {
			t.Error("a list of a shard said how many remain")
		}
		for _, p := range list.Items {
			seen[p.Name]++
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return
		}
	}
}

func watchShard(t *testing.T, s *Server, pods v1.PodInterface, o metav1.ListOptions, seen map[string]int) {
	t.Helper()
	ctx := testContext(t)
	o.AllowWatchBookmarks = true
	w, err := pods.Watch(ctx, o)
	must(t, err)
	waitWatches(t, s, 1)
	s.Bookmark()
	for e := range w.ResultChan() {
		if e.Type == watch.Bookmark {
			break
		}
		seen[string(e.Type)+" "+e.Object.(*corev1.Pod).Name]++
	}
	w.Stop()
	waitWatches(t, s, 0)
}

func TestShardInfo(t *testing.T) {
	s := start(t, Options{Sharding: true, Resources: []Resource{widgets}})
	load(t, s, 20)
	for i := range 20 {
		must(t, s.Load(widgets.GroupVersionResource,
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("w-%02d", i)}}))
	}
	gv := widgets.GroupVersion()
	for path, accept := range map[string]string{
		"/api/v1/pods": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		"/apis/" + gv.Group + "/" + gv.Version + "/" + widgets.GroupVersionResource.Resource: contentJSON,
	} {
		total := 0
		for _, shard := range shards {
			_, body := get(t, s, path+"?shardSelector="+url.QueryEscape(shard), http.Header{"Accept": {accept}})
			var list metav1.PartialObjectMetadataList
			must(t, json.Unmarshal(body, &list))
			if list.ShardInfo != nil || len(list.Items) == 20 {
				t.Errorf("%s: %d items, %+v", path, len(list.Items), list.ShardInfo)
			}
			total += len(list.Items)
		}
		if total != 20 {
			t.Errorf("%s: the shards have %d objects", path, total)
		}
	}
}

// TestBadShardSelector checks that invalid shard selectors are a 500, as with kube-apiserver's strict parser, and are
// ignored without the feature gate.
func TestBadShardSelector(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := start(t, Options{Sharding: on})
		for _, bad := range []string{
			"shardRange(object.metadata.uid, '0x0', '0x8000000000000000')",
			"shardRange(object.metadata.uid, '0x8000000000000000', '0x0000000000000000')",
			"shardRange(object.metadata.name, '0x0000000000000000', '0x8000000000000000')",
			shards[1] + " || " + strings.ReplaceAll(shards[2], "uid", "namespace"),
			shards[1] + " && " + shards[2],
		} {
			for _, verb := range []string{"", "&watch=true&timeoutSeconds=1&resourceVersion=1"} {
				if verb != "" && !on {
					continue // skipped, since a watch without an error would stay open for a second
				}
				response, body := get(t, s, "/api/v1/pods?shardSelector="+url.QueryEscape(bad)+verb, nil)
				want := http.StatusOK
				if on {
					want = http.StatusInternalServerError
				}
				if response.StatusCode != want || on && !strings.Contains(string(body), "invalid shard selector") {
					t.Errorf("gate %v, %s: %d %s", on, bad, response.StatusCode, body)
				}
			}
		}
	}
}
