package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Compression says how the objects of a collection are compressed in the file. It may change at each opening: stored
// records stay readable until their objects change, or a relist with ReplaceOptions.Rewrite rewrites them.
type Compression string

// The ways to compress objects.
const (
	// NoCompression stores objects as the codec encodes them.
	NoCompression Compression = ""
	// Zstd compresses each object with a dictionary made of parts of the collection's objects, once it has 256 KiB of
	// them. Use it if the disk is small or wears out, or the page cache is small. For 100,000 pods that differ (protobuf)
	// the file has a quarter of the size and an update writes two fifths of the bytes. In CPU time a Get costs 1.3 times
	// as much, Iterate 1.3 to 1.7, a commit 1.2 to 1.5, a first list 1.0 to 1.3, and Select 5 to 6 times as much for
	// objects that are neither in memory nor selected. It takes 1.7 MB of memory for a collection that is written.
	// docs/adr/0007 has the figures and the command:
	//
	//	go test -run '^$' -bench 'BenchmarkCompression$' -benchtime 1s ./store
	Zstd Compression = "zstd"
)

func (c Compression) validate() error {
	if c != NoCompression && c != Zstd {
		return fmt.Errorf("there is no compression %q; use store.Zstd or store.NoCompression", string(c))
	}
	return nil
}

// loadDictionary gives the collection's stored dictionary to the compressor. If the dictionary is damaged or was
// written by a newer program, the compressor builds a new one later. The damage also makes the store fail (Store.Err).
func (c *Collection) loadDictionary(ctx context.Context) error {
	if c.compressor == nil {
		return nil
	}
	err := c.read.View(ctx, func(b *bolt.Bucket) error {
		st, err := engine.GetState(b, c.read.Name)
		if err != nil || st.Dictionary == 0 {
			return err
		}
		dict, err := c.read.Coder.Get(b.Tx(), st.Dictionary)
		if err == nil {
			c.compressor.Resume(dict)
		}
		return err
	})
	if errors.Is(err, entry.ErrDamaged) || errors.Is(err, entry.ErrIncompatible) {
		return nil
	}
	return err
}
