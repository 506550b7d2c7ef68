package gate

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const shardIgnored = "the server, or the ListerWatcher, does not heed the shard selector " +
	"(feature gate ShardedListAndWatch, off by default): " +
	"what comes of other shards is left out here; if everything comes, the contents are right and only the traffic is " +
	"that of the whole"

// foreigners counts the objects of other shards that the server sent. A server that does not know the selector, or
// whose feature gate is off, ignores it and sends every shard. A missing metav1.ShardInfo does not show that: watches,
// and lists of custom resources and of metadata, never have it. So the reflector checks the shard of each object.
type foreigners struct {
	// sent counts all objects of other shards. distinct counts only items of lists, and an item with the UID of the
	// previous item (last) only once: events may be about a few objects only.
	sent, distinct int
	last           types.UID
}

// LeaveOut reports whether obj is of another shard, and counts it if so. The object is not a stray: it shows that the
// server sends every shard, not that objects may be missing. An object keeps its UID and namespace, and so its shard.
// It was never delivered before, so its DELETED event is dropped too.
func (g *Gate) LeaveOut(ctx context.Context, obj runtime.Object) bool {
	// An object whose shard is unknown is kept; RefOf refuses it if it has no metadata.
	if ours, err := g.o.Shard.Matches(obj); ours || err != nil {
		return false
	}
	g.foreign.sent++
	if g.dropped.Unsharded == "" {
		klog.FromContext(ctx).Info("Objects of other shards come too: "+shardIgnored, "shard", g.o.Shard.String())
		g.setUnsharded(shardIgnored)
	}
	return true
}

// LeaveOutItem does for an item of a list what LeaveOut does for an event's object.
func (g *Gate) LeaveOutItem(ctx context.Context, obj runtime.Object) bool {
	if !g.LeaveOut(ctx, obj) {
		return false
	}
	if acc, err := meta.Accessor(obj); err == nil && acc.GetUID() != g.foreign.last {
		g.foreign.distinct++
		g.foreign.last = acc.GetUID()
	}
	return true
}

func (g *Gate) setUnsharded(why string) { g.update(func(s *Dropped) { s.Unsharded = why }) }

// chanceOfNone is the natural logarithm of a probability, about 1e-13. If a list of all shards would lack objects of
// this shard with a smaller probability, a list without them is of another shard.
const chanceOfNone = -30

// isOtherShard reports whether a list that has only objects of other shards was requested for another shard. Its
// objects must not replace the stored ones. A list of all shards would contain some objects of this shard. The answer
// is known only for selectors by UID, whose hashes are spread evenly.
func (g *Gate) isOtherShard(sent foreigners) bool {
	return float64(sent.distinct)*math.Log1p(-shareOfUIDs(g.o.Shard)) < chanceOfNone
}

func shareOfUIDs(s sharding.Selector) (share float64) {
	for _, r := range s.Requirements() {
		start, err := hashFraction(r.Start)
		end, err2 := hashFraction(r.End)
		if r.Key != "object.metadata.uid" || err != nil || err2 != nil {
			return 0
		}
		share += end - start
	}
	return min(share, 1)
}

func hashFraction(hash string) (float64, error) {
	if hash == "0x10000000000000000" {
		return 1, nil
	}
	n, err := strconv.ParseUint(hash, 0, 64)
	return float64(n) / math.MaxUint64, err
}

func (g *Gate) errAnotherShard(sent foreigners) error {
	return fmt.Errorf(
		"%w: all %d objects of the list are of other shards than %s; make the ListerWatcher's requests with that selector",
		ErrStrays, sent.sent, g.o.Shard)
}

func (f foreigners) since(then foreigners) foreigners {
	return foreigners{sent: f.sent - then.sent, distinct: f.distinct - then.distinct}
}
