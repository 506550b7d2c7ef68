package store

import (
	"errors"
	"fmt"
)

// ErrOtherCluster says that another open collection of the store is connected to another cluster. A store holds objects
// of one cluster; open a second store for the other cluster.
var ErrOtherCluster = errors.New("the store is used for another cluster")

// ClaimCluster says that the collection is connected to the cluster id (Attributes.ClusterID) while it is open. It
// fails with ErrOtherCluster if an open collection of this Store has claimed another cluster, so that one file never
// mixes objects of two clusters. Two claims always succeed, because the cluster behind an address may be exchanged, and
// collections notice the exchange one after the other: a repeated claim of the same cluster, and a claim with exchanged
// set, if the stored objects came from another cluster.
//
// An empty id says that the cluster is not known. An empty id or a refused claim removes the collection's claim. The
// file does not store claims, because the cluster that its objects came from may no longer exist.
func (c *Collection) ClaimCluster(id string, exchanged bool) error {
	l := &c.store.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == c.cluster {
		return nil
	}
	c.cluster = ""
	if !exchanged && id != "" {
		if other := l.otherClusterLocked(id); other != "" {
			return fmt.Errorf("%w: %s has objects of another one; each cluster needs a store of its own", ErrOtherCluster, other)
		}
	}
	c.cluster = id
	return nil
}

// otherClusterLocked returns the name of a collection that has claimed another cluster than id. The caller holds mu.
func (l *liveSet) otherClusterLocked(id string) (first string) {
	for c := range l.all {
		if name := c.id.String(); c.cluster != "" && c.cluster != id && (first == "" || name < first) {
			first = name
		}
	}
	return first
}
