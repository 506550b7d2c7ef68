package entry

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func withShard(selector string) Identity {
	id := pods()
	id.ShardSelector = selector
	return id
}

// TestShardSelectorCanonical checks that spellings of one selector that differ in spaces and quotes are one collection,
// in the form that the API server accepts.
func TestShardSelectorCanonical(t *testing.T) {
	const (
		lower = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
		upper = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
		outer = "shardRange(object.metadata.uid, '0x0000000000000000', '0x4000000000000000') || " +
			"shardRange(object.metadata.uid, '0xc000000000000000', '0x10000000000000000')"
		namespaces = "shardRange(object.metadata.namespace, '0x00000000000000aa', '0x00000000000000ff')"
	)
	for given, want := range map[string]string{
		"":    "",
		lower: lower, upper: upper, outer: outer, namespaces: namespaces,
		`  shardRange( object.metadata.uid ,"0x0000000000000000" , "0x8000000000000000" )  `: lower,
		strings.Join(strings.Split(outer, " "), "  "):                                        outer,
	} {
		id, err := withShard(given).Canonical()
		if err != nil || id.ShardSelector != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", given, id.ShardSelector, err, want)
		}
		if got := withShard(given).Shards().String(); got != want {
			t.Errorf("%s selects %q", given, got)
		}
		if withShard(given).ID() != withShard(want).ID() {
			t.Errorf("%s and %s are two collections", given, want)
		}
	}
}

// digits matches a shortened hash of one digit, which the test extends to its full length.
var digits = regexp.MustCompile(`'0x([0-9a-f])'`)

func TestShardSelectorRefused(t *testing.T) {
	for given, want := range map[string]string{
		"\t ": "it is blank",
		"shardRange(object.metadata.uid, '0x0', '0x8') ||":                                                   `"" is not of the form`,
		"shardRange(object.metadata.uid, '0x0')":                                                             "is not of the form",
		"shardRange(object.metadata.uid, '0x00', '0x8')":                                                     "is not of the form",
		"shardRange(object.metadata.uid, '0x0', '0xG')":                                                      "is not of the form",
		"shardRange(object.metadata.uid, '0x0', '8')":                                                        "is not of the form",
		"shardRange(object.metadata.uid, '0x0', '0x8') && shardRange(object.metadata.uid, '0x9', '0xa')":     "is not of the form",
		"shardRange(object.metadata.name, '0x0', '0x8')":                                                     "of the field object.metadata.name",
		"shardRange(object.metadata.uid, '0x8', '0x8')":                                                      "selects nothing",
		"shardRange(object.metadata.uid, '0x9', '0x8')":                                                      "selects nothing",
		"shardRange(object.metadata.uid, '0x0', '0x10000000000000001')":                                      "ends above",
		"shardRange(object.metadata.uid, '0x0', '0x8')||shardRange(object.metadata.namespace, '0x8', '0x9')": "must be of one field",
	} {
		given = digits.ReplaceAllString(given, "'0x000000000000000$1'")
		_, err := withShard(given).Canonical()
		if err == nil || !strings.Contains(err.Error(), "shard selector: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
		if !withShard(given).Shards().Empty() {
			t.Errorf("%s selects something", given)
		}
	}
}

func matches(t interface{ Fatal(...any) }, s sharding.Selector, o metav1.ObjectMeta) bool {
	ok, err := s.Matches(&metav1.PartialObjectMetadata{ObjectMeta: o})
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// TestShardSelectorKeepsItsMeaning checks that the canonical form is its own canonical form, and selects the same
// objects as the given ranges.
func TestShardSelectorKeepsItsMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{shardByUID, shardByNamespace}).Draw(t, "field")
		var given []sharding.ShardRangeRequirement
		for range rapid.IntRange(1, 5).Draw(t, "ranges") {
			r := sharding.ShardRangeRequirement{Key: key}
			// A few bounds only, so that ranges meet and overlap.
			start := rapid.IntRange(0, 15).Draw(t, "start")
			r.Start = fmt.Sprintf("0x%x000000000000000", start)
			r.End = hashesEnd
			if end := rapid.IntRange(start+1, 16).Draw(t, "end"); end < 16 {
				r.End = fmt.Sprintf("0x%x000000000000000", end)
			}
			given = append(given, r)
		}
		before := sharding.NewSelector(given...)
		id, err := withShard(before.String()).Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := id.Canonical(); err != nil || again != id {
			t.Fatalf("the canonical form of %q is %q, %v", id.ShardSelector, again.ShardSelector, err)
		}
		for range 20 {
			o := metav1.ObjectMeta{UID: types.UID(rapid.String().Draw(t, "uid")), Namespace: rapid.String().Draw(t, "namespace")}
			if was, is := matches(t, before, o), matches(t, id.Shards(), o); was != is {
				t.Fatalf("%q selects %v of what %q selects %v", before, was, id.ShardSelector, is)
			}
		}
	})
}

// TestShardsAreAPartition checks that each object is in one shard, and that the shards have about the same size.
func TestShardsAreAPartition(t *testing.T) {
	uids := rand.New(rand.NewPCG(1, 2))
	for _, of := range []int{1, 2, 3, 7, 16, 40} {
		sizes := make([]int, of)
		shards := make([]sharding.Selector, of)
		for n := range of {
			selector, err := ShardSelector(n, of)
			if err != nil {
				t.Fatal(err)
			}
			if id, err := withShard(selector).Canonical(); err != nil || id.ShardSelector != selector {
				t.Errorf("shard %d of %d: %q has the canonical form %q, %v", n, of, selector, id.ShardSelector, err)
			}
			shards[n] = withShard(selector).Shards()
		}
		for range 100 * of {
			o := metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("%08x-%04x-4%03x", uids.Uint32(), uids.Uint32()>>16,
				uids.Uint32()>>20))}
			in := 0
			for n, s := range shards {
				if matches(t, s, o) {
					sizes[n]++
					in++
				}
			}
			if in != 1 {
				t.Fatalf("%s is in %d of %d shards", o.UID, in, of)
			}
		}
		for n, size := range sizes {
			if size < 50 || size > 160 {
				t.Errorf("shard %d of %d has %d of %d objects", n, of, size, 100*of)
			}
		}
	}
	for _, wrong := range [][2]int{{0, 0}, {-1, 2}, {2, 2}, {1, 1}, {0, -1}} {
		if s, err := ShardSelector(wrong[0], wrong[1]); err == nil {
			t.Errorf("shard %v: %q", wrong, s)
		}
	}
}
