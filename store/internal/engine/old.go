package engine

import (
	"errors"

	bolt "go.etcd.io/bbolt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"

	"github.com/larder-dev/larder/store/internal/format"
)

// OldRecord is a copy of the file's record under a key, before a write of the key replaces it.
type OldRecord struct {
	Record // DecodeOld sets Record.Obj.
	// Found is false without a record; the other fields are zero then.
	Found bool
	// unreadable is true if this program cannot decode the record. Then no reader has seen its object.
	unreadable bool
}

// CopyOld copies the file's record under key out of its transaction. An error wraps entry.ErrDamaged.
func (r *Reader) CopyOld(objects *bolt.Bucket, key string) (o OldRecord, err error) {
	data := objects.Get([]byte(key))
	if data == nil {
		return o, nil
	}
	o.Found = true
	o.Record, err = r.CopyRecord(objects, key, data, nil)
	if err != nil && !errors.Is(err, entry.ErrDamaged) {
		o.unreadable = true
		o.Header, err = format.ParseHeader(r.Name, key, data)
	}
	return o, err
}

// DecodeOld sets the objects of the copied records. It decodes the records for which now returns true, on all cores,
// and the other objects on demand. The object of an undecodable record stays nil.
func (r *Reader) DecodeOld(all []OldRecord, now func(i int) bool) {
	cost := 0
	for i, o := range all {
		if o.Found && now(i) {
			cost += 4<<10 + o.Body.Size
		}
	}
	base.Parallel(len(all), cost, func(i int) {
		o := &all[i]
		switch {
		case !o.Found, o.unreadable:
		case now(i):
			_ = base.Try("the codec", func() (err error) {
				o.Obj, err = r.decode(o.Record)
				return err
			})
		default:
			o.Obj = r.undecoded(o.Record)
		}
	})
}

func (r *Reader) undecoded(record Record) *entry.Undecoded {
	var m metav1.ObjectMeta
	m.Namespace, m.Name, _ = cache.SplitMetaNamespaceKey(record.Key)
	m.UID, m.ResourceVersion = types.UID(record.UID), record.RV
	return entry.NewUndecoded(&entry.UndecodedKind{
		Decode: func(string, []byte) (runtime.Object, error) { return r.decode(record) },
	}, metav1.TypeMeta{}, m, record.Body.Encoding, nil)
}
