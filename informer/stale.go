package informer

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

// Stale returns why reads are refused: an error that wraps ErrStale, or nil. It is for those who read by a method that has no error, such as client-go's
// listers: these find nothing then.
func (i *Informer) Stale() error { return i.retention.refuses() }

// staleIndexer refuses reads of what is too old. Those that can not fail find nothing.
type staleIndexer struct {
	*store.Indexer
	retention *retention
}

func (s *staleIndexer) List() []any {
	if !s.retention.serves() {
		return nil
	}
	return s.Indexer.List()
}

func (s *staleIndexer) ListKeys() []string {
	if !s.retention.serves() {
		return nil
	}
	return s.Indexer.ListKeys()
}

func (s *staleIndexer) ListIndexFuncValues(index string) []string {
	if !s.retention.serves() {
		return nil
	}
	return s.Indexer.ListIndexFuncValues(index)
}

func (s *staleIndexer) Get(obj any) (item any, exists bool, err error) {
	if err := s.retention.refuses(); err != nil {
		return nil, false, err
	}
	return s.Indexer.Get(obj)
}

func (s *staleIndexer) GetByKey(key string) (item any, exists bool, err error) {
	if err := s.retention.refuses(); err != nil {
		return nil, false, err
	}
	return s.Indexer.GetByKey(key)
}

func (s *staleIndexer) Index(index string, obj any) ([]any, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Indexer.Index(index, obj)
}

func (s *staleIndexer) IndexKeys(index, value string) ([]string, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Indexer.IndexKeys(index, value)
}

func (s *staleIndexer) ByIndex(index, value string) ([]any, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Indexer.ByIndex(index, value)
}

// staleReader refuses reads of what is too old. What an iteration has begun it ends.
type staleReader struct {
	store.Reader
	retention *retention
}

var (
	_ cache.Indexer = &staleIndexer{}
	_ store.Reader  = &staleReader{}
)

func (s *staleReader) Get(ctx context.Context, key string) (runtime.Object, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Reader.Get(ctx, key)
}

func (s *staleReader) List(ctx context.Context) ([]runtime.Object, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Reader.List(ctx)
}

func (s *staleReader) Keys(ctx context.Context) ([]string, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Reader.Keys(ctx)
}

func (s *staleReader) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	if err := s.retention.refuses(); err != nil {
		return err
	}
	return s.Reader.Iterate(ctx, after, fn)
}

func (s *staleReader) Select(ctx context.Context, q store.Query) ([]runtime.Object, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Reader.Select(ctx, q)
}

func (s *staleReader) Each(ctx context.Context, q store.Query, fn func(key string, obj runtime.Object) error) error {
	if err := s.retention.refuses(); err != nil {
		return err
	}
	return s.Reader.Each(ctx, q, fn)
}

func (s *staleReader) ByIndex(ctx context.Context, index, value string) ([]runtime.Object, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Reader.ByIndex(ctx, index, value)
}

func (s *staleReader) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Reader.IndexKeys(ctx, index, value)
}

func (s *staleReader) IndexValues(ctx context.Context, index string) ([]string, error) {
	if err := s.retention.refuses(); err != nil {
		return nil, err
	}
	return s.Reader.IndexValues(ctx, index)
}
