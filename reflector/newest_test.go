package reflector

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
)

func keys(n newest) []string {
	var k []string
	for _, r := range n.Refs {
		k = append(k, r.Key+"@"+r.ResourceVersion)
	}
	return k
}

// testNewest checks the list of newest objects against a map of all objects. An object may be missing only if newer
// objects have displaced it and were deleted later.
func TestNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n newest
		all := map[string]int{}
		for rv := 1; rv < 200; rv++ {
			key := fmt.Sprintf("a/%d", rapid.IntRange(0, 30).Draw(t, "key"))
			if rapid.IntRange(0, 3).Draw(t, "del") == 0 {
				n.Remove(key)
				delete(all, key)
			} else {
				n.Put(entry.ObjectRef{Key: key, UID: "u", ResourceVersion: fmt.Sprint(rv)})
				all[key] = rv
			}
			for i, r := range n.Refs {
				if fmt.Sprint(all[r.Key]) != r.ResourceVersion {
					t.Fatalf("holds %s@%s, the stream is at %d", r.Key, r.ResourceVersion, all[r.Key])
				}
				if i > 0 && below(n.Refs[i-1].ResourceVersion, r.ResourceVersion) {
					t.Fatalf("not sorted: %v", keys(n))
				}
			}
			if len(n.Refs) > newestSize {
				t.Fatalf("%d refs", len(n.Refs))
			}
			top := 0
			for _, v := range all {
				top = max(top, v)
			}
			if len(n.Refs) > 0 && n.Refs[0].ResourceVersion != fmt.Sprint(top) {
				t.Fatalf("newest is %v, want %d", keys(n), top)
			}
		}
	})
}

func TestNewestIgnoresWhatSaysNothing(t *testing.T) {
	var n newest
	n.Put(entry.ObjectRef{Key: "a", UID: "u", ResourceVersion: "9"})
	n.Put(entry.ObjectRef{Key: "b", UID: "", ResourceVersion: "10"})
	n.Put(entry.ObjectRef{Key: "c", UID: "u", ResourceVersion: "x"})
	n.Put(entry.ObjectRef{Key: "d", UID: "u", ResourceVersion: "10"})
	if got := keys(n); !slices.Equal(got, []string{"d@10", "a@9"}) {
		t.Errorf("got %v", got)
	}
	n.Put(entry.ObjectRef{Key: "a", UID: "u", ResourceVersion: ""})
	if got := keys(n); !slices.Equal(got, []string{"d@10"}) {
		t.Errorf("an object of unknown state is still held: %v", got)
	}
}

func TestListNewest(t *testing.T) {
	ref := func(key, rv string) entry.ObjectRef { return entry.ObjectRef{Key: key, UID: "u", ResourceVersion: rv} }
	l := newListNewest()
	l.Item(ref("a", "1"))
	l.Item(ref("b", "2"))
	l.Remove("c") // object c is deleted before its page arrives
	l.Remove("a") // object a is deleted after its page has arrived
	l.Put(ref("d", "11"))
	l.Item(ref("c", "3"))
	l.Item(ref("d", "4"))
	l.Item(ref("e", "5"))
	if got := keys(l.Result()); !slices.Equal(got, []string{"d@11", "e@5", "b@2"}) {
		t.Errorf("got %v", got)
	}
	for i := range touchedMax + 1 {
		l.Remove(fmt.Sprint("x", i))
	}
	l.Item(ref("x1", "6"))
	if got := keys(l.Result()); !slices.Equal(got, []string{"d@11"}) {
		t.Errorf("with too many events to remember: %v", got)
	}
}
