package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestClaimCluster checks that all open collections of a store must belong to one cluster, identified by its UID.
func TestClaimCluster(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	var opened []*store.Collection
	for _, namespace := range []string{"a", "b", "c"} {
		id := storetest.Pods
		id.Namespace = namespace
		c, err := s.Collection(context.Background(), id, store.CollectionOptions{Codec: storetest.PodCodec()})
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, c)
	}
	a, b, c := opened[0], opened[1], opened[2]
	claim := func(c *store.Collection, id string, exchanged, want bool) {
		t.Helper()
		err := c.ClaimCluster(id, exchanged)
		if (err == nil) != want || err != nil && !errors.Is(err, store.ErrOtherCluster) {
			t.Errorf("claim %q: %v", id, err)
		}
	}
	claim(a, "one", false, true)
	claim(b, "one", false, true)
	claim(c, "two", false, false)
	if err := c.ClaimCluster("two", false); err == nil || !strings.Contains(err.Error(), a.Identity().String()+" has") {
		t.Errorf("the first of the others is not named: %v", err)
	}
	claim(c, "", false, true)
	claim(c, "one", false, true)
	claim(c, "two", false, false)

	// The server's address now leads to cluster "two", and collection a notices the change first.
	claim(a, "two", true, true)
	claim(a, "two", false, true)
	claim(b, "one", false, true)
	claim(b, "two", true, true)
	claim(c, "two", false, true)

	claim(a, "three", false, false)
	b.Close()
	c.Close()
	claim(a, "three", false, true)
}
