package e2e

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
)

// lists are the ways to list, other than pages, and what a client asks for then: cold, and in a relist from the held resourceVersion.
var lists = []struct {
	name        string
	options     func(*informer.Options)
	cold, again func(held string) []string
}{
	{
		"watch list", func(o *informer.Options) { o.UseWatchList = true },
		func(string) []string { return []string{"watch NotOlderThan"} },
		func(string) []string { return []string{"watch NotOlderThan"} },
	},
	{
		"from the cache", func(o *informer.Options) {
			o.ServerVersion = func(context.Context) (string, error) { return "v1.33.0", nil } // it is newer, but does it too
		},
		func(string) []string { return []string{"list 0 NotOlderThan"} },
		func(held string) []string { return []string{"list " + held + " NotOlderThan"} },
	},
}

// listedBy returns what the client asked for in order to list.
func (c *cluster) listedBy(t *testing.T, agent, resource string) (by []string) {
	t.Helper()
	a := c.asked(t, agent, resource)
	for _, r := range a.lists {
		by = append(by, "list "+r.Query.Get("resourceVersion")+" "+r.Query.Get("resourceVersionMatch"))
	}
	for _, r := range a.watches {
		if r.Query.Get("sendInitialEvents") == "true" {
			by = append(by, "watch "+r.Query.Get("resourceVersion")+r.Query.Get("resourceVersionMatch"))
		}
	}
	return by
}

// Lists that come as a watch, or whole from the server's cache, do what pages do: cold, resumed, and after a 410, when deletes
// that nobody saw are told and only what differs is written.
func TestOtherLists(t *testing.T) {
	for _, l := range lists {
		t.Run(l.name, func(t *testing.T) {
			c := newCluster(t, shared)
			c.createPods(t, names("p", 0, 300))
			f := newFile(t)
			agent := t.Name() + "/cold"
			first, before := f.run(t, podSource(t, c.Config(agent), c.ns), smallPages, l.options)
			if problem := c.pods(t).diff(before.objects); problem != "" || !before.Complete {
				t.Fatalf("stored (complete %t): %s", before.Complete, problem)
			}
			first.onlyAdds(t)
			if by := c.listedBy(t, agent, "pods"); !slices.Equal(by, l.cold("")) {
				t.Errorf("cold: listed by %q, want %q", by, l.cold(""))
			}

			c.createPods(t, names("new", 0, 30))
			c.touchPods(t, names("p", 0, 40), "unseen")
			c.deletePods(t, names("p", 250, 300))
			c.restartAPIServer(t)
			want := c.pods(t)
			c.mark(t)
			agent = t.Name() + "/relist"
			s := f.start(t, podSource(t, c.Config(agent), c.ns), smallPages, l.options)
			s.sync(t)
			s.converge(t, want)
			checkTombstones(t, s.expect(t, before.objects, want))
			if st := s.Status().Reflector; st.Relists[reflector.ReasonExpired] != 1 || len(st.Relists) != 1 {
				t.Errorf("relists: %v, want one for 410", st.Relists)
			}
			if by := c.listedBy(t, agent, "pods"); !slices.Equal(by, l.again(before.ResourceVersion)) {
				t.Errorf("after a 410: listed by %q, want %q", by, l.again(before.ResourceVersion))
			}
			// The watch goes on.
			c.touchPods(t, names("p", 100, 110), "seen")
			s.converge(t, c.pods(t))
			s.stop(t)
			f.close(t)
			after := f.read(t, s.source.identity, s.source.example)
			if written := after.NextSeq - before.NextSeq; written != 30+40+10 {
				t.Errorf("%d records were written, want the new, the changed and the touched ones", written)
			}
		})
	}
}

// A resource without a watch cache streams its lists too.
func TestWatchListWithoutACache(t *testing.T) {
	c := newCluster(t, shared)
	for _, name := range names("cm", 0, 60) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.client.CoreV1().ConfigMaps(c.ns).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f := newFile(t)
	s, left := f.run(t, typedSource(t, c.Config(t.Name()), "configmaps", c.ns, "", &corev1.ConfigMap{}), smallPages, lists[0].options)
	if len(left.objects) < 60 || !left.Complete {
		t.Errorf("stored (complete %t): %d objects", left.Complete, len(left.objects))
	}
	s.onlyAdds(t)
	if by := c.listedBy(t, t.Name(), "configmaps"); !slices.Equal(by, []string{"watch NotOlderThan"}) {
		t.Errorf("listed by %q", by)
	}
}
