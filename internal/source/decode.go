package source

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/snapshot"
)

// Decoder decodes the entries of one collection, in any representation, to unstructured objects. It is safe for
// concurrent use.
type Decoder struct {
	collection Collection
	codec      codec.Codec
}

// NewDecoder returns the decoder of the collection c. The decoder also reads the entries of c in a snapshot.
func NewDecoder(c Collection) *Decoder { return &Decoder{c, snapshot.NewDecoder(c.Saved()).Codec()} }

// Decode returns a new object. If the entry lacks apiVersion and kind, the object has those of the collection. For an
// entry with only a key the object has only the namespace and name.
func (d *Decoder) Decode(e entry.Entry) (*unstructured.Unstructured, error) {
	u := nameOnly(e.Key)
	if len(e.Payload) > 0 {
		obj, err := codec.Decode(d.codec, e.Encoding, e.Payload)
		if err != nil {
			return nil, d.collection.undecodable(fmt.Errorf("%s in collection %s: %w", base.PrintableKey(e.Key), d.collection.ID,
				err))
		}
		u = obj.(*unstructured.Unstructured)
	}
	if u.GetKind() == "" {
		u.SetAPIVersion(d.collection.GVR().GroupVersion().String())
		u.SetKind(d.collection.Kind)
	}
	return u, nil
}

// undecodable returns err, the error of decoding an object of the collection. If the object has a Go type that this
// program does not know, it adds an explanation for users.
func (c Collection) undecodable(err error) error {
	if !errors.Is(err, entry.ErrIncompatible) || c.Representation != string(entry.Typed) {
		return err
	}
	message := fmt.Sprintf("larder cannot decode the %s of a Go program's own type %s; the program that stored them can",
		c.GVR().GroupResource(), c.Kind)
	if c.Kind == "" {
		message = fmt.Sprintf("the store does not tell the kind of its %s, without which larder cannot decode them; the "+
			"program that stored them can", c.GVR().GroupResource())
	}
	return &wireError{message: message, is: entry.ErrIncompatible}
}

// batchEntries and batchBytes bound a batch of entries, which one goroutine decodes: a batch is full with 64 entries,
// or when their payloads have 256 KiB.
const (
	batchEntries = 64
	batchBytes   = 256 << 10
)

// batch is a group of entries that is decoded by one goroutine. Its objects are valid once done is closed.
type batch struct {
	entries []entry.Entry
	bytes   int
	objects []*unstructured.Unstructured
	errs    []error
	done    chan struct{}
}

func (b *batch) decode(d *Decoder) {
	defer close(b.done)
	b.objects, b.errs = make([]*unstructured.Unstructured, len(b.entries)), make([]error, len(b.entries))
	for i, e := range b.entries {
		b.objects[i], b.errs[i] = d.Decode(e)
	}
	b.entries = nil
}

// Objects calls fn with each object of the collection c that q selects, in key order. It ignores q.Collection. fn may
// keep and change the objects. Entries are read ahead and decoded on all cores. Objects returns the errors of
// Source.Entries.
func Objects(
	ctx context.Context, src Source, c Collection, q Query, fn func(*unstructured.Unstructured) error,
) error {
	d := NewDecoder(c)
	q.Collection = c.ID
	reading, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ahead := make(chan *batch, runtime.GOMAXPROCS(0))
	var readErr error // readErr is set before ahead is closed, and read afterwards
	wg.Go(func() {
		defer close(ahead)
		readErr = readBatches(reading, src, q, func(b *batch) error {
			wg.Go(func() { b.decode(d) })
			select {
			case ahead <- b:
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		})
	})
	var unreadable UnreadableError
	for b := range ahead {
		<-b.done
		for i, u := range b.objects {
			if err := unreadable.add(b.errs[i]); err != nil {
				return err
			}
			if u == nil {
				continue
			}
			if err := fn(u); err != nil {
				return err
			}
		}
	}
	if err := unreadable.add(readErr); err != nil {
		return err
	}
	return unreadable.errOrNil()
}

// readBatches calls send with batches of the entries that q selects. Before it returns an error it sends all readable
// entries.
func readBatches(ctx context.Context, src Source, q Query, send func(*batch) error) error {
	newBatch := func() *batch { return &batch{done: make(chan struct{})} }
	b := newBatch()
	err := src.Entries(ctx, q, func(e entry.Entry) error {
		b.entries, b.bytes = append(b.entries, e), b.bytes+len(e.Payload)
		if len(b.entries) < batchEntries && b.bytes < batchBytes {
			return nil
		}
		full := b
		b = newBatch()
		return send(full)
	})
	if sendErr := send(b); err == nil {
		err = sendErr
	}
	return err
}

func encode(key string, obj k8sruntime.Object) (entry.Entry, error) {
	u, err := asUnstructured(key, obj)
	if err != nil {
		return entry.Entry{}, err
	}
	c := codec.Unstructured()
	payload, err := c.Append(nil, u)
	if err != nil {
		return entry.Entry{}, fmt.Errorf("%q cannot be written as an entry: %w", key, err)
	}
	return entry.Entry{Key: key, UID: string(u.GetUID()), ResourceVersion: u.GetResourceVersion(), Encoding: c.Name(),
		Payload: payload}, nil
}

func asUnstructured(key string, obj k8sruntime.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
		return nil, fmt.Errorf("object %q is a %T, neither unstructured nor metadata", key, obj)
	}
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("object %q: %w", key, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func nameOnly(key string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	u.SetName(name)
	if namespace != "" {
		u.SetNamespace(namespace)
	}
	return u
}
