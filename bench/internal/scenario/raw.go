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

	"github.com/larder-dev/larder/bench/internal/load"
)

// rawTransaction is how many bytes of values a raw transaction writes: as much as Larder's commits are to hold.
const rawTransaction = 4 << 20

var rawBucket = []byte("objects")

// rawFile is a bbolt file with the objects of a case: the least that can be done on disk.
type rawFile struct {
	*bolt.DB
	values [][]byte
}

// newRaw makes the file. Remove it.
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
	numbers := make([]int, b.Case.N)
	for i := range numbers {
		numbers[i] = i
	}
	if err := raw.put(b, numbers); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return raw, nil
}

// put writes values under the keys of those numbers, in transactions of 4 MiB.
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

func rawReads(ctx context.Context, b *Bench) (Result, error) {
	raw, err := newRaw(b)
	if err != nil {
		return nil, err
	}
	raw.values = nil // or they would spare the collector of this process most of its runs, which Larder's reads pay for
	_, all := keysOf(b)
	format := formatOf(b.Case)
	var perSecond float64
	err = rate(ctx, readFor(b.Case), 1, func(random *rand.Rand) error {
		return raw.View(func(tx *bolt.Tx) error {
			key := all[random.IntN(len(all))]
			value := tx.Bucket(rawBucket).Get([]byte(key))
			if value == nil {
				return fmt.Errorf("%s is not there", key)
			}
			return format.decode(value)
		})
	}, &perSecond)
	return Result{"cold": 1e6 / perSecond}, errors.Join(err, raw.remove())
}

// rawWrites writes every object once, in no order: an update of a key is a write of its page.
func rawWrites(_ context.Context, b *Bench) (Result, error) {
	raw, err := newRaw(b)
	if err != nil {
		return nil, err
	}
	numbers := shuffled(b.Case.N)
	start := time.Now()
	err = raw.put(b, numbers)
	took := time.Since(start)
	return Result{"rate": float64(len(numbers)) / took.Seconds()}, errors.Join(err, raw.remove())
}

// shuffled returns the numbers below n in an order that is always the same.
func shuffled(n int) []int { return rand.New(rand.NewPCG(2, 3)).Perm(n) }

// remove closes the file and removes it.
func (r *rawFile) remove() error {
	path := r.Path()
	return errors.Join(r.Close(), os.Remove(path))
}
