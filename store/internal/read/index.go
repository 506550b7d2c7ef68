package read

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/keyring"
	"github.com/larder-dev/larder/store/internal/resident"
)

// IndexView returns a view of the named index of the collection in bucket b, under the writes of over. sealed says that
// records of the collection are sealed; older ones may be in plain text. decoded may be nil.
func (r *Reader) IndexView(
	b *bolt.Bucket, name string, sealed bool, over *Captured, decoded *resident.Bounded,
) (index.View, error) {
	objects, err := r.Objects(b)
	if err != nil {
		return index.View{}, err
	}
	src := index.Source{
		Object: func(key string) (runtime.Object, error) { return r.filed(objects, name, key, over, decoded) },
		Dirty:  func(key string) bool { return over.Get(key) != nil },
		Filed:  over.Filed,
	}
	if sealed {
		src.Sealing = keyring.Filed{Sealer: r.Coder.Sealer, Objects: objects}
	}
	return index.NewView(r.Name, b, name, src)
}

// filed returns the object of a key that the named index has: from the memtable, from the cache of decoded objects if
// that has the same state, or decoded.
func (r *Reader) filed(
	objects *bolt.Bucket, name, key string, over *Captured, decoded *resident.Bounded,
) (runtime.Object, error) {
	if x := over.Get(key); x != nil {
		return x.Obj, nil
	}
	s, err := r.Stored(objects, key)
	switch {
	case err != nil:
		return nil, err
	case !s.Found:
		return nil, fmt.Errorf("index %q in collection %s files %s, which is not there: %w", name, r.Name,
			printable.Key(key), entry.ErrDamaged)
	}
	if decoded != nil {
		if obj := decoded.State(key, s.UID, s.RV); obj != nil {
			return obj, nil
		}
	}
	return r.Coder.ObjectOf(objects, key, s.Header, s.Payload)
}
