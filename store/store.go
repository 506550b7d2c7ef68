package store

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
)

// Options are the options of Open. The zero value works.
type Options struct {
	// ReadOnly opens the file for inspection, with a shared lock.
	ReadOnly bool
	// LockTimeout is how long to wait while another process holds the file.
	// Default 1 s; negative does not wait.
	LockTimeout time.Duration
	// MaxSize bounds the file, in bytes. Default: none.
	MaxSize int64
	// Logger is told of quarantine, rebuilds and skipped objects. Default: klog.Background().
	Logger *logr.Logger
}

// CollectionOptions are the options of Store.Collection.
type CollectionOptions struct {
	// Codec of the objects. Required.
	Codec Codec
	// KeyFunc returns an object's key. Default cache.DeletionHandlingMetaNamespaceKeyFunc.
	KeyFunc cache.KeyFunc
	// Indexers to start with; more can be added later.
	Indexers cache.Indexers
	// IndexVersions: see Interface.AddIndexers.
	IndexVersions map[string]string
	// Resource is stored for the command line.
	Resource ResourceInfo
}

// Store is one file of collections.
type Store struct{}

// Open opens or creates the file.
func Open(path string, o Options) (*Store, error) { return nil, nil }

// Path returns the file's name.
func (s *Store) Path() string { return "" }

// Collection opens or creates a collection. Opening one twice at a time fails.
func (s *Store) Collection(ctx context.Context, id Identity, o CollectionOptions) (*Collection, error) {
	return nil, nil
}

// Collections returns the state of every collection in the file, opened or not.
func (s *Store) Collections(ctx context.Context) ([]Info, error) { return nil, nil }

// View opens a collection for reading with the codec that wrote it decoding to
// unstructured objects, whatever its representation.
func (s *Store) View(ctx context.Context, id Identity) (*View, error) { return nil, nil }

// Drop removes a collection that is not open.
func (s *Store) Drop(ctx context.Context, id Identity) error { return nil }

// Check verifies the whole file.
func (s *Store) Check(ctx context.Context) (Report, error) { return Report{}, nil }

// Size returns the file's size and the part of it that is free, in bytes.
func (s *Store) Size() (total, free int64, err error) { return 0, 0, nil }

// Close waits for the background work to end, marks the file as cleanly closed and closes it.
func (s *Store) Close() error { return nil }

// Report is what Check found.
type Report struct {
	Collections int
	Objects     int
	// IndexEntries checked, both ways.
	IndexEntries int
	// Problems, one line each, that name collection and key. Empty is good.
	Problems []string
}
