package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// replica is one of several programs that share the objects of a resource. Each has its own shard and its own file.
type replica struct {
	*file
	*subject
	agent string
}

// shard returns the shard selector for the part with this index of a resource divided into that many parts.
func shard(t *testing.T, index, of int) string {
	t.Helper()
	selector, err := entry.ShardSelector(index, of)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

// shardOfPods returns the identity and the ListerWatcher for one shard of a namespace's pods. It uses exported API
// only.
func shardOfPods(t *testing.T, cfg *rest.Config, ns, selector string) source {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	id := entry.Identity{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace:            ns, ShardSelector: selector, Representation: entry.Typed,
	}
	return source{identity: id, example: &corev1.Pod{}, lw: requests.ListWatch(client.CoreV1().RESTClient(), id)}
}

func (r *replica) run(t *testing.T, c *cluster, life, selector string, change ...func(*informer.Options)) {
	t.Helper()
	r.agent = t.Name() + "/" + life
	r.subject = r.start(t, shardOfPods(t, c.Config(r.agent), c.ns, selector), change...)
	r.sync(t)
}

func (r *replica) end(t *testing.T) {
	t.Helper()
	r.stop(t)
	r.close(t)
}

func startShards(t *testing.T, c *cluster, of int) (replicas []*replica) {
	t.Helper()
	for n := range of {
		r := &replica{file: newFile(t)}
		r.run(t, c, fmt.Sprintf("cold-%d", n), shard(t, n, of))
		replicas = append(replicas, r)
	}
	return replicas
}

// together waits until the replicas together have the server's objects, and no object twice. Every replica must have
// some objects.
func together(t *testing.T, want objects, replicas ...*replica) {
	t.Helper()
	eventually(t, "the shards", func() string {
		all, by := objects{}, map[types.UID]int{}
		for n, r := range replicas {
			held := r.held(t)
			if len(held) == 0 {
				return fmt.Sprintf("replica %d holds nothing", n)
			}
			for key, obj := range held {
				uid := uidOf(obj)
				if other, twice := by[uid]; twice || all[key] != nil {
					return fmt.Sprintf("%s is held by replica %d, and by %d or another", key, n, other)
				}
				all[key], by[uid] = obj, n
			}
		}
		return want.diff(all)
	})
}

func uidOf(obj runtime.Object) types.UID {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetUID()
}

func (r *replica) shardsIgnored() bool {
	return slices.ContainsFunc(r.Status().Unguarded,
		func(line string) bool { return strings.HasPrefix(line, "a shard: the server") })
}

func (r *replica) withoutAList(t *testing.T, c *cluster) {
	t.Helper()
	if asked := c.asked(t, r.agent, "pods"); len(asked.lists) > 0 {
		t.Errorf("%s: lists: %v", r.agent, asked.lists)
	}
	if st := r.Status().Reflector; st.Resumes == 0 || len(st.Relists) > 0 {
		t.Errorf("%s: status %+v", r.agent, st)
	}
}

// TestShards checks shards (list and watch by a range of hashes) on an API server with the feature gate. Together the
// replicas must have all objects, through changes and moves between shards. A restarted replica must list nothing, and
// a replica with a new range must list that range once.
func TestShards(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ownControlPlane(t, "--feature-gates=ShardedListAndWatch=true"))
	c.createPods(t, names("p", 0, 600))
	replicas := startShards(t, c, 3)
	together(t, c.pods(t), replicas...)
	for _, r := range replicas {
		if n := len(r.held(t)); n < 130 || n > 270 || r.shardsIgnored() {
			t.Errorf("%s: %d objects, status %+v", r.agent, n, r.Status())
		}
		asked := c.asked(t, r.agent, "pods")
		for _, request := range slices.Concat(asked.lists, asked.watches) {
			if got := request.Query.Get("shardSelector"); got != r.source.identity.ShardSelector {
				t.Errorf("%s asked for %q", r.agent, got)
			}
		}
	}
	c.changeShards(t, replicas)
	c.otherRanges(t, replicas)

	t.Run("custom resources and metadata", c.shardsOfWidgets)
}

// changeShards changes pods while three replicas run, and while one of them is down. That replica must then resume, and
// receive changes of its shard only.
func (c *cluster) changeShards(t *testing.T, replicas []*replica) {
	t.Helper()
	change := func(value string, first int) {
		t.Helper()
		c.createPods(t, names(value, 0, 60))
		c.touchPods(t, names("p", first, first+60), value)
		c.deletePods(t, names("p", first+60, first+120))
	}
	change("live", 0)
	together(t, c.pods(t), replicas...)
	down := replicas[1]
	before := down.held(t)
	down.end(t)
	change("down", 120)
	c.moveShards(t, names("p", 240, 290), down.source.identity)
	want := c.pods(t)
	c.mark(t)
	down.run(t, c, "restart", shard(t, 1, 3))
	down.withoutAList(t, c)
	if problem := ofView(down.source.identity, want).diff(down.held(t)); problem != "" {
		t.Error("after HasSynced:", problem)
	}
	together(t, want, replicas...)
	for _, n := range down.replayed(t, before) {
		if n.verb != "delete" && !inView(down.source.identity, n.obj) {
			t.Errorf("%s of %s, which is of another shard", n.verb, n.key)
		}
	}
}

// otherRanges runs two of three replicas on two shards, whose ranges are new to the replicas. Each replica must list
// its range once.
func (c *cluster) otherRanges(t *testing.T, replicas []*replica) {
	t.Helper()
	want := c.pods(t)
	for _, r := range replicas {
		r.end(t)
	}
	c.mark(t)
	replicas = replicas[:2]
	for n, r := range replicas {
		r.run(t, c, fmt.Sprintf("range-%d", n), shard(t, n, 2))
		begun := 0
		for _, list := range c.asked(t, r.agent, "pods").lists {
			if list.Query.Get("continue") == "" {
				begun++
			}
		}
		if begun != 1 || len(r.Status().Reflector.Relists) > 0 {
			t.Errorf("%s: %d lists, relists %v", r.agent, begun, r.Status().Reflector.Relists)
		}
		old := r.source.identity
		old.ShardSelector = shard(t, n, 3)
		if err := r.Drop(t.Context(), old); err != nil {
			t.Errorf("%s: the old range: %v", r.agent, err)
		}
	}
	together(t, want, replicas...)
	for n, r := range replicas {
		r.end(t)
		if left := r.read(t, r.source.identity, r.source.example); ofView(r.source.identity, want).diff(left.objects) != "" {
			t.Errorf("%s: %d objects on disk", r.agent, len(left.objects))
		}
		c.mark(t)
		r.run(t, c, fmt.Sprintf("again-%d", n), shard(t, n, 2))
		r.withoutAList(t, c)
	}
	together(t, want, replicas...)
}

// shardsOfWidgets checks shards of custom resources and of metadata. The server's lists of these do not name the shard,
// but have only the shard's objects.
func (c *cluster) shardsOfWidgets(t *testing.T) {
	client := c.createWidgets(t, 60)
	cfg := c.Config(t.Name())
	for form, representation := range map[string]entry.Representation{
		"unstructured": entry.Unstructured, "metadata": entry.Metadata,
	} {
		var replicas []*replica
		want := c.widgets(t, client)
		for n := range 2 {
			r := &replica{file: newFile(t), agent: form}
			r.subject = r.start(t, untypedSource(t, cfg, entry.Identity{
				GroupVersionResource: widgets, Namespace: c.ns, ShardSelector: shard(t, n, 2), Representation: representation,
			}))
			r.sync(t)
			replicas = append(replicas, r)
		}
		eventually(t, form, func() string {
			all := map[string]string{}
			for _, r := range replicas {
				maps.Copy(all, r.held(t).versions())
			}
			if n := len(replicas[0].held(t)) + len(replicas[1].held(t)); n != 60 || !maps.Equal(all, want.versions()) {
				return fmt.Sprintf("%d are held, of %d", n, len(want))
			}
			return ""
		})
		for _, r := range replicas {
			if r.shardsIgnored() {
				t.Errorf("%s: %q", form, r.Status().Unguarded)
			}
			r.end(t)
		}
	}
}

// TestShardsIgnored checks a server without the feature gate, which silently sends all objects to each replica. Each
// replica must store only the objects of its shard, and say in its status that the server ignores shards.
func TestShardsIgnored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 100))
	replicas := startShards(t, c, 3)
	together(t, c.pods(t), replicas...)
	c.touchPods(t, names("p", 0, 20), "live")
	c.moveShards(t, names("p", 20, 40), replicas[0].source.identity)
	together(t, c.pods(t), replicas...)
	for n, r := range replicas {
		if !r.shardsIgnored() || r.Status().Reflector.Skipped > 0 || r.Status().Err != nil {
			t.Errorf("%s: %+v", r.agent, r.Status())
		}
		r.end(t)
		c.mark(t)
		r.run(t, c, fmt.Sprintf("restart-%d", n), r.source.identity.ShardSelector)
		r.withoutAList(t, c)
	}
	together(t, c.pods(t), replicas...)
}

func (c *cluster) moveShards(t *testing.T, names []string, id entry.Identity) {
	t.Helper()
	eventually(t, "pods that move", func() string {
		before := c.pods(t)
		c.deletePods(t, names)
		c.createPods(t, names)
		left, came := 0, 0
		for key, obj := range c.pods(t) {
			switch was, is := before[key] != nil && inView(id, before[key]), inView(id, obj); {
			case was && !is:
				left++
			case is && !was:
				came++
			}
		}
		if left == 0 || came == 0 {
			return fmt.Sprintf("%d left, %d came", left, came)
		}
		return ""
	})
}

func ofView(id entry.Identity, all objects) objects {
	some := objects{}
	for key, obj := range all {
		if inView(id, obj) {
			some[key] = obj
		}
	}
	return some
}

func inView(id entry.Identity, obj runtime.Object) bool {
	ok, err := id.Shards().Matches(obj)
	return err == nil && ok
}
