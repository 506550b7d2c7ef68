package store

import (
	"bytes"
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/compress"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// putDictionary stores a dictionary in a collection's bucket, unless it is stored already.
func (c *Collection) putDictionary(b *bolt.Bucket, d *compress.Dictionary) error {
	dicts, err := b.CreateBucketIfNotExists(format.BucketDictionaries)
	if err != nil || dicts.Get(format.DictionaryKey(d.ID)) != nil {
		return err
	}
	return dicts.Put(format.DictionaryKey(d.ID),
		c.appendRecord(nil, format.BucketDictionaries, format.DictionaryPlace(d.ID), format.DictionaryHeader, d.Content))
}

// dictionary returns the dictionary with that id. It reads it in the transaction if it is not cached.
func (r *reader) dictionary(tx *bolt.Tx, id uint64) (*compress.Dictionary, error) {
	if found := r.dicts.Find(id); found != nil {
		return found, nil
	}
	b, err := collectionBucket(tx, r.name)
	if err != nil {
		return nil, err
	}
	found, err := compress.Stored(b, r.name, id, r.opener())
	if err != nil {
		return nil, err
	}
	return r.dicts.Add(found), nil
}

// loadDictionary makes the compressor use the dictionary that was used last. If that is damaged, reading it has failed
// the store, as it does for a record that names it; loadDictionary returns nil and the compressor makes a new one.
func (c *Collection) loadDictionary(ctx context.Context) error {
	if c.compressor == nil {
		return nil
	}
	err := c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, c.name)
		if err != nil || st.dictionary == 0 {
			return err
		}
		dict, err := c.dictionary(b.Tx(), st.dictionary)
		if err == nil && !(c.compressor.IsSealed() && dict.IsHashed()) { // a sealed collection uses no plain text dictionary
			c.compressor.Use(dict)
		}
		return err
	})
	if errors.Is(err, entry.ErrDamaged) {
		return nil
	}
	return err
}

// reviseDictionary lets the compressor make a new dictionary from the first page of a list that rewrites every body,
// since all of the list will be compressed with the dictionary.
func (r *replacement) reviseDictionary(items map[string]*item, keys []string) {
	compressor := r.in.back.encoder(nil).compressor
	if compressor == nil || r.revised {
		return
	}
	r.revised = true
	payloads := make([][]byte, 0, len(keys))
	for _, key := range keys {
		if it := items[key]; it.err == nil {
			payloads = append(payloads, it.Payload)
		}
	}
	compressor.Revise(payloads)
}

// dropDictionaries removes the dictionaries that no record names and the compressor does not use.
func (c *Collection) dropDictionaries(b *bolt.Bucket, st *state) error {
	dicts, needed := b.Bucket(format.BucketDictionaries), map[uint64]bool{}
	if dicts == nil {
		return nil
	}
	if dict := c.compressor.Using(); dict != nil {
		needed[dict.ID] = true
	}
	unused := func() (keys [][]byte, err error) {
		err = dicts.ForEach(func(k, _ []byte) error {
			if id, ok := format.ParseDictionaryKey(k); !ok || !needed[id] {
				keys = append(keys, bytes.Clone(k))
			}
			return nil
		})
		return keys, err
	}
	if keys, err := unused(); err != nil || len(keys) == 0 {
		return err
	}
	objects, err := c.objects(b)
	if err != nil {
		return err
	}
	err = objects.ForEach(func(k, data []byte) error {
		h, err := format.ParseHeader(c.name, string(k), data)
		needed[h.Dictionary] = true
		return err
	})
	if err != nil {
		return err
	}
	keys, err := unused()
	for _, k := range keys {
		if err == nil {
			err = dicts.Delete(k)
		}
	}
	if !needed[st.dictionary] {
		st.dictionary = 0
	}
	return err
}

// compress compresses the payloads of the writes that are not compressed yet, except those that would not get shorter.
func (c *Collection) compress(writes []*memtable.Write) {
	if c.compressor == nil {
		return
	}
	var todo []*memtable.Write
	var payloads [][]byte
	for _, x := range writes {
		if !x.Del && x.Dict == nil {
			todo, payloads = append(todo, x), append(payloads, x.Payload)
		}
	}
	compressed, dict := c.compressor.Compress(payloads)
	for i, x := range todo {
		if compressed[i] != nil {
			x.Compressed, x.Dict = compressed[i], dict
		}
	}
}
