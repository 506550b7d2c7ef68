package store

import (
	"errors"
	"fmt"
)

// ErrOtherCluster: another open collection of the store is connected to another cluster. A
// store holds one cluster; open another one for the other.
var ErrOtherCluster = errors.New("the store is used for another cluster")

// ClaimCluster says which cluster (see Attributes.ClusterID) the collection is connected to, for as long as it is open.
// It fails with ErrOtherCluster while an open collection of this Store has claimed another, so that two clusters are
// not mixed in one file. Two things are not refused, since the cluster behind an address may be exchanged, and
// collections notice that one after the other:
//
//   - What the collection has claimed already.
//   - A claim with exchanged set: the contents came from another cluster than is there now.
//
// An empty id, where the cluster is not known, gives the claim up, and so does a claim that is refused. Nothing of this
// is in the file: what is stored of a cluster is not known to be there still.
func (c *Collection) ClaimCluster(id string, exchanged bool) error {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == c.cluster {
		return nil
	}
	c.cluster = ""
	if !exchanged && id != "" {
		if other := s.otherClusterLocked(id); other != "" {
			return fmt.Errorf("%w: %s has objects of another one; each cluster needs a store of its own", ErrOtherCluster, other)
		}
	}
	c.cluster = id
	return nil
}

// otherClusterLocked names the first, in order, of the live collections that have claimed another cluster, or returns
// an empty string.
func (s *Store) otherClusterLocked(id string) (first string) {
	for c := range s.live {
		if name := c.id.String(); c.cluster != "" && c.cluster != id && (first == "" || name < first) {
			first = name
		}
	}
	return first
}
