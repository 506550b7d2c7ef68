package source

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// File is an open store as a Source.
type File struct {
	store *store.Store
}

// NewFile returns the open store as a Source. Close of the Source closes it.
func NewFile(s *store.Store) *File { return &File{store: s} }

// Status implements Source.
func (f *File) Status(ctx context.Context) (Status, error) {
	infos, err := f.store.Collections(ctx)
	if err != nil {
		return Status{}, err
	}
	total, free, err := f.store.Size()
	if err != nil {
		return Status{}, err
	}
	s := Status{Store: f.store.Path(), Bytes: total, FreeBytes: free, WrittenBytes: f.store.Written(),
		Collections: []Collection{}}
	for _, info := range infos {
		c := NewCollection(info)
		if !c.Sealed && f.store.Seals(info.Identity.GroupResource()) { // from its next write on
			c.Sealed, c.PlainText = true, info.Objects > 0
		}
		handlers, err := f.store.Handlers(ctx, info.Identity)
		if err != nil {
			return Status{}, err
		}
		c.Handlers = handlersOf(handlers)
		kept, err := f.store.Kept(ctx, info.Identity)
		if err != nil {
			return Status{}, err
		}
		feed, err := f.store.FeedID(ctx, info.Identity)
		if err != nil {
			return Status{}, err
		}
		c.Changes = changesOf(kept, feed)
		s.Collections = append(s.Collections, c)
	}
	if err := f.store.CommitErr(); err != nil {
		s.Error = err.Error()
	}
	Sort(s.Collections)
	return s, nil
}

// Objects implements Source. What is pending is committed first, as far as it can be: a view sees what has been.
func (f *File) Objects(ctx context.Context, q Query, fn func(*unstructured.Unstructured) error) error {
	view, info, err := f.open(ctx, q.Collection)
	if err != nil {
		return err
	}
	if !q.NameOnly || q.Selector != "" || q.Fields != "" {
		return undecodable(info, Each(ctx, view, q, fn))
	}
	last := ""
	err = Each(ctx, view, q, func(u *unstructured.Unstructured) error {
		last = cache.MetaObjectToName(u).String()
		return fn(u)
	})
	if errors.Is(err, seal.ErrSealed) {
		return eachName(ctx, view, q, last, fn)
	}
	return undecodable(info, err)
}

// open returns a view of the collection with that id, after what is pending has been committed, as far as it can be.
func (f *File) open(ctx context.Context, id string) (*store.View, store.Info, error) {
	if err := f.store.Flush(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("Serving what was committed last", "err", err)
	}
	infos, err := f.store.Collections(ctx)
	if err != nil {
		return nil, store.Info{}, err
	}
	for _, info := range infos {
		if info.Identity.ID() != id {
			continue
		}
		codec, err := viewCodec(info)
		if err != nil {
			return nil, info, err
		}
		view, err := f.store.ViewWith(ctx, info.Identity, codec)
		return view, info, err
	}
	return nil, store.Info{}, fmt.Errorf("collection %s: %w", id, ErrNoCollection)
}

// Check implements Source.
func (f *File) Check(ctx context.Context) (store.Report, error) { return asProblem(f.store.Check(ctx)) }

// Compact implements Source.
func (f *File) Compact(ctx context.Context) (store.Compacted, error) { return f.store.Compact(ctx) }

// asProblem makes damage that ended a check a problem of the report: the
// question was whether there is any.
func asProblem(report store.Report, err error) (store.Report, error) {
	if errors.Is(err, entry.ErrDamaged) {
		report.Problems = append(report.Problems, err.Error())
		err = nil
	}
	return report, err
}

// Scrub is that of the store.
func (f *File) Scrub(ctx context.Context) error { return f.store.Scrub(ctx) }

// Close implements Source.
func (f *File) Close() error { return f.store.Close() }

// Reader is the part of store.Reader that Each needs.
type Reader interface {
	Get(ctx context.Context, key string) (runtime.Object, error)
	// Keys returns every key in order, also with an error that wraps entry.ErrDamaged.
	Keys(ctx context.Context) ([]string, error)
	Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error
	Each(ctx context.Context, q store.Query, fn func(key string, obj runtime.Object) error) error
}

// Each calls fn for each object of r that q selects, in key order. r holds unstructured objects, under client-go's
// keys. If some are damaged, the others are passed to fn all the same, and the error is an *UnreadableError.
func Each(ctx context.Context, r Reader, q Query, fn func(*unstructured.Unstructured) error) error {
	selected, err := q.parse()
	if err != nil {
		return err
	}
	emit := func(key string, obj runtime.Object) error {
		u, err := asUnstructured(key, obj)
		if err != nil {
			return err
		}
		if q.HeadOnly {
			u = head(u)
		}
		return fn(u)
	}
	if q.Name != "" {
		key := namespacePrefix(q.Namespace) + q.Name
		obj, err := get(ctx, r, key, selected)
		if err != nil || obj == nil {
			return damaged(err)
		}
		return emit(key, obj)
	}
	last := ""
	read := func(key string, obj runtime.Object) error {
		last = key
		return emit(key, obj)
	}
	if q.Namespace == "" && q.Selector == "" && q.Fields == "" {
		err = r.Iterate(ctx, "", read) // which decodes on all cores
	} else {
		err = r.Each(ctx, selected, read)
	}
	if errors.Is(err, entry.ErrDamaged) {
		return eachKey(ctx, r, last, selected, emit)
	}
	return err
}

// eachName calls fn with the names of what q selects and whose key follows after. They can be read without a key. What
// is damaged of the others, which can, is in the error.
func eachName(ctx context.Context, r Reader, q Query, after string, fn func(*unstructured.Unstructured) error) error {
	keys, err := r.Keys(ctx)
	unreadable := &UnreadableError{}
	if err := unreadable.take(err); err != nil {
		return err
	}
	wanted := selection{query: q}
	for _, key := range keys {
		if !wanted.reaches(key) {
			continue
		}
		if key > after {
			err = fn(nameOnly(key))
		} else {
			_, err = r.Get(ctx, key)
			err = unreadable.take(err)
		}
		if err != nil {
			return err
		}
	}
	return unreadable.errOrNil()
}

// asUnstructured returns an unstructured object as it is, and metadata in that form; nil for none.
func asUnstructured(key string, obj runtime.Object) (*unstructured.Unstructured, error) {
	if obj == nil {
		return nil, nil
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
		return nil, fmt.Errorf("object %q is a %T, neither unstructured nor metadata", key, obj)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("object %q: %w", key, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// get returns the object with that key, or nil if there is none or q does not select it.
func get(ctx context.Context, r Reader, key string, q store.Query) (runtime.Object, error) {
	obj, err := r.Get(ctx, key)
	if err != nil || obj == nil {
		return nil, err
	}
	if selected, err := q.Matches(obj); err != nil || !selected {
		return nil, err
	}
	return obj, nil
}

// namespacePrefix is what the keys of a namespace's objects begin with.
func namespacePrefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + "/"
}
