package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// rawTransaction is the size of one bbolt transaction in bytes of values, equal to the default of Larder's CommitBytes.
const rawTransaction = 4 << 20

var rawBucket = []byte("objects")

// rawFile is a plain bbolt file with only the objects of a case. Its reads and writes are the least work that an
// informer on disk can do.
type rawFile struct {
	*bolt.DB
	values [][]byte
}

func newRaw(b *Bench) (_ *rawFile, err error) {
	raw, format := &rawFile{}, formatOf(b.Case)
	path := filepath.Join(filepath.Dir(b.Case.File), "raw.db")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if raw.DB, err = bolt.Open(path, 0o600, &bolt.Options{InitialMmapSize: 4 << 30}); err != nil {
		return nil, err
	}
	for i := range b.Case.N {
		value, err := format.encode(load.WithManagedFields(b.Kind.New(i, 0)).(*corev1.Pod))
		if err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		raw.values = append(raw.values, value)
	}
	if err := raw.put(b, every(1, b.Case.N)); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return raw, nil
}

// put writes the objects with these numbers under their keys, in transactions of 4 MiB.
func (r *rawFile) put(b *Bench, numbers []int) error {
	for len(numbers) > 0 {
		count, size := 0, 0
		err := r.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(rawBucket)
			for ; err == nil && count < len(numbers) && size < rawTransaction; count++ {
				value := r.values[numbers[count]]
				size += len(value)
				err = bucket.Put([]byte(b.Kind.Key(numbers[count])), value)
			}
			return err
		})
		if err != nil {
			return err
		}
		numbers = numbers[count:]
	}
	return nil
}

func (r *rawFile) remove() error {
	path := r.Path()
	return errors.Join(r.Close(), os.Remove(path))
}

// rawReads measures reads from a plain bbolt file: it reads objects in random order and decodes them.
func rawReads(ctx context.Context, b *Bench) (Result, error) {
	raw, err := newRaw(b)
	if err != nil {
		return nil, err
	}
	raw.values = nil // a large heap would mean few garbage collections, which Larder's reads must pay for
	_, all := keysOf(b)
	format := formatOf(b.Case)
	perSecond, err := rate(ctx, b, 1, func(random *rand.Rand) error {
		return raw.View(func(tx *bolt.Tx) error {
			key := all[random.IntN(len(all))]
			value := tx.Bucket(rawBucket).Get([]byte(key))
			if value == nil {
				return fmt.Errorf("%s is not there", key)
			}
			return format.decode(value)
		})
	})
	return Result{"cold": 1e6 / perSecond}, errors.Join(err, raw.remove())
}

// rawWrites measures writes to a plain bbolt file: it writes every object once, in random order, so that most updates
// write a separate page.
func rawWrites(_ context.Context, b *Bench) (Result, error) {
	raw, err := newRaw(b)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	err = raw.put(b, shuffled(b.Case.N))
	took := time.Since(start)
	return Result{"rate": float64(b.Case.N) / took.Seconds()}, errors.Join(err, raw.remove())
}

type rawFormat struct {
	encode func(pod *corev1.Pod) ([]byte, error)
	decode func(value []byte) error
}

// formatOf returns the encoding of a case's objects in the plain bbolt file. Typed objects are in the protobuf of their
// type. Unstructured objects are in Larder's encoding, the fastest encoding: against JSON, Larder would win too easily.
func formatOf(c Case) rawFormat {
	if !c.Subject.Dynamic {
		return rawFormat{
			encode: (*corev1.Pod).Marshal,
			decode: func(value []byte) error { return new(corev1.Pod).Unmarshal(value) },
		}
	}
	unstructuredCodec := codec.Unstructured()
	return rawFormat{
		encode: func(pod *corev1.Pod) ([]byte, error) {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
			if err != nil {
				return nil, err
			}
			obj := &unstructured.Unstructured{Object: content}
			obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			return unstructuredCodec.Append(nil, obj)
		},
		decode: func(value []byte) error {
			_, err := unstructuredCodec.Decode(value)
			return err
		},
	}
}

// committedEvents is the number of events that are committed separately to measure the cost of a commit. leastCommitted
// is the minimum in a short run.
const committedEvents, leastCommitted = 1000, 100

// commitEachEvent measures a file like Larder's in which each change is committed in a separate transaction.
func commitEachEvent(ctx context.Context, b *Bench) (_ Result, err error) {
	s, err := store.Open(b.Case.File, store.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	podCodec, err := codec.For(b.Kind.Example)
	if err != nil {
		return nil, err
	}
	c, err := s.Collection(ctx, entry.Identity{GroupVersionResource: b.Kind.GVR}, store.CollectionOptions{
		Codec:         podCodec,
		Indexers:      cache.Indexers{subject.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		IndexVersions: subject.IndexVersions(),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	before, err := writesOf(s)
	if err != nil {
		return nil, err
	}
	hot := every(100, b.Case.N)
	events := max(int(committedEvents*b.Case.Effort), leastCommitted)
	for n := range events {
		obj := load.WithManagedFields(b.Kind.New(hot[n%len(hot)], b.Case.Revision+n))
		result, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{{Object: obj}}})
		if err == nil {
			err = s.Flush(ctx)
		}
		if err == nil && len(result.Changes) != 1 {
			err = fmt.Errorf("%d changes, want one; skipped: %v", len(result.Changes), result.Skipped)
		}
		if err != nil {
			return nil, err
		}
	}
	after, err := writesOf(s)
	result := Result{}
	after.addTo(result, before, "", events)
	after.addTo(result, before, seldom, events)
	return result, err
}
