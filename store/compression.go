package store

import "fmt"

// Compression says how the objects of a collection are compressed in the file. It can be changed whenever a collection is opened:
// records of every kind are read whatever it is, and each is written anew when its object changes, or by a relist that
// rewrites (ReplaceOptions.Rewrite).
type Compression string

// The compressions.
const (
	// NoCompression stores objects as the codec encodes them.
	NoCompression Compression = ""
	// Zstd compresses each object with a dictionary that is made of some of the collection's, once there are 256 KiB of
	// them. FIGURES
	Zstd Compression = "zstd"
)

// validate returns an error if there is no such compression.
func (c Compression) validate() error {
	if c != NoCompression && c != Zstd {
		return fmt.Errorf("there is no compression %q; use store.Zstd or store.NoCompression", string(c))
	}
	return nil
}
