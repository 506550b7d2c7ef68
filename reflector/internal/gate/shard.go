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

// notHeeded is Status.Unsharded.
const notHeeded = "the server, or the ListerWatcher, does not heed the shard selector " +
	"(feature gate ShardedListAndWatch, off by default): " +
	"what comes of other shards is left out here; if everything comes, the contents are right and only the traffic is " +
	"that of the whole"

// foreigners are the objects of other shards that were sent nevertheless. A server that does not know the selector, or
// whose feature gate is off, ignores it and sends everything; that a list says nothing of its shard (metav1.ShardInfo)
// is no sign of that, since the lists of custom resources and of metadata never do, nor do watches. So each object is
// judged by itself.
type foreigners struct {
	// sent is how many came. distinct are those of lists, and does not count one with the UID of the one before; what
	// events bring may be few objects, again and again.
	sent, distinct int
	last           types.UID
}

// LeaveOut reports whether obj is of another shard, and notes it then. Such an object is no stray: it shows that
// everything comes, and not that something may be missing. An object keeps its UID and its namespace, and so its shard:
// what is left out now was never delivered, and a DELETED event of it is none of ours either.
func (g *Gate) LeaveOut(ctx context.Context, obj runtime.Object) bool {
	if ours, err := g.o.Shard.Matches(obj); ours || err != nil { // what has no metadata is for refOf to refuse
		return false
	}
	g.foreign.sent++
	if g.said.Unsharded == "" {
		klog.FromContext(ctx).Info("Objects of other shards come too: "+notHeeded, "shard", g.o.Shard.String())
		g.setUnsharded(notHeeded)
	}
	return true
}

// LeaveOutItem is leaveOut for an item of a list.
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

func (g *Gate) setUnsharded(why string) { g.say(func(s *Said) { s.Unsharded = why }) }

// chanceOfNone is ln of the probability, about 1e-13, below which it is no chance that a list of everything has nothing
// of a shard.
const chanceOfNone = -30

// asksForAnother reports that a list with nothing but objects of other shards can be no list of everything: it would
// have had some of ours. The ListerWatcher then asks for another shard, and its list says nothing about what is held.
// That can be told only where hashes are spread evenly, as those of UIDs are.
func (g *Gate) asksForAnother(sent foreigners) bool {
	return float64(sent.distinct)*math.Log1p(-shareOfUIDs(g.o.Shard)) < chanceOfNone
}

// shareOfUIDs is the part of all UIDs that a selector by UID selects; 0 for others.
func shareOfUIDs(s sharding.Selector) (share float64) {
	for _, r := range s.Requirements() {
		start, err := hashPlace(r.Start)
		end, err2 := hashPlace(r.End)
		if r.Key != "object.metadata.uid" || err != nil || err2 != nil {
			return 0
		}
		share += end - start
	}
	return min(share, 1)
}

// hashPlace is where a hash is in the space of hashes, from 0 to 1.
func hashPlace(hash string) (float64, error) {
	if hash == "0x10000000000000000" {
		return 1, nil
	}
	n, err := strconv.ParseUint(hash, 0, 64)
	return float64(n) / math.MaxUint64, err
}

// errAnotherShard is why a list was thrown away.
func (g *Gate) errAnotherShard(sent foreigners) error {
	return fmt.Errorf(
		"%w: all %d objects of the list are of other shards than %s; make the ListerWatcher's requests with that selector",
		ErrStrays, sent.sent, g.o.Shard)
}

// since is what came after then.
func (f foreigners) since(then foreigners) foreigners {
	return foreigners{sent: f.sent - then.sent, distinct: f.distinct - then.distinct}
}
