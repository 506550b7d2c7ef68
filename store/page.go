package store

import (
	"context"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/engine"
)

// History returns the latest changes of the collection, in memory; nil if CollectionOptions.History is 0.
func (c *Collection) History() *history.Window { return c.core.History }

// historyNow returns the newest Position of the history; the zero Position if the collection has no history.
func (c *Collection) historyNow() (at history.Position) {
	if c.core.History != nil {
		at, _ = c.core.History.Now()
	}
	return at
}

// Page is a run of entries in key order, read in one consistent state.
type Page struct {
	Entries []entry.Entry
	// More says that entries may follow the key Last.
	More bool
	Last string
	// Info is the state of the collection at the read, and At the Position in its history; zero if it has no history.
	Info entry.Info
	At   history.Position
}

// PageOptions says which entries a Page has.
type PageOptions struct {
	// After is the key that precedes the page. Empty begins at the first key.
	After string
	// Prefix is the prefix of all keys in the page, for example a namespace and a slash, or a whole key.
	Prefix string
	// Limit is the maximum number of entries. Default and maximum: 500.
	Limit int
	// Bytes is the approximate size of the page's payloads, in bytes: the page ends with the entry that exceeds it.
	// Default and maximum: 4 MiB.
	Bytes int
	// Memory is a buffer for the payloads, which Page grows if necessary. The payloads of a page are valid until the next
	// Page with the same Memory. Default: each page allocates its payloads, and the caller owns them.
	Memory *[]byte
}

func (o PageOptions) query() engine.PageQuery { return engine.PageQuery(o) }

// Page reads a page of entries, committed or not. The caller owns the entries. An entry that cannot be read ends the
// page: the error is an entry.RecordError, and the page has the entries before it.
func (c *Collection) Page(ctx context.Context, o PageOptions) (p Page, err error) {
	found, err := c.core.Read.PageOfEntries(ctx, o.query(), func() { p.At = c.historyNow() })
	p.Entries, p.More, p.Last, p.Info = found.Entries, found.More, found.Last, found.Info
	return p, err
}

// CountKeys returns how many keys begin with prefix.
func (c *Collection) CountKeys(ctx context.Context, prefix string) (int, error) {
	return c.core.Read.CountKeys(ctx, prefix)
}

// CountKeys returns how many keys begin with prefix.
func (v *View) CountKeys(ctx context.Context, prefix string) (int, error) {
	return v.read.CountKeys(ctx, prefix)
}

// Opened returns the collection of that identity if it is open, and nil otherwise.
func (s *Store) Opened(id entry.Identity) *Collection {
	id, err := id.Canonical()
	if err != nil {
		return nil
	}
	for _, c := range s.live.list() {
		if c.core.ID == id {
			return c
		}
	}
	return nil
}

// Openings returns a channel that is closed when the next collection is opened; see Opened.
func (s *Store) Openings() <-chan struct{} {
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	return s.live.opening
}

// Page reads a page of committed entries; see Collection.Page.
func (v *View) Page(ctx context.Context, o PageOptions) (Page, error) {
	found, err := v.read.PageOfEntries(ctx, o.query(), func() {})
	return Page{Entries: found.Entries, More: found.More, Last: found.Last, Info: found.Info}, err
}

// Records calls fn for each committed record of a collection whose key follows after, in the byte order of keys. The
// collection may be open or not. No transaction is open while fn runs. Each page of records is consistent, but all
// pages together only if there is no write meanwhile, as in a copy by CopyFile. The caller owns the records.
//
// Records returns the error of fn, or ErrNoCollection. The error of an unreadable record is an entry.RecordError. It
// wraps ErrIncompatible if a newer program wrote the record. The error of other damage wraps ErrDamaged.
func (s *Store) Records(ctx context.Context, id entry.Identity, after string, fn func(entry.Entry) error) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	r := s.reader(id.ID(), nil)
	var failed error // failed is the error of fn, which Records returns without a wrapper
	err = r.Entries(ctx, after, func(e entry.Entry) error {
		failed = fn(e)
		return failed
	})
	if err == nil || failed != nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("read %s: %w", id, err)
}

// Record returns the record with that key, and whether it exists. It fails as Records does.
func (s *Store) Record(ctx context.Context, id entry.Identity, key string) (e entry.Entry, found bool, err error) {
	if id, err = id.Canonical(); err != nil {
		return e, false, err
	}
	r := s.reader(id.ID(), nil)
	if e, found, err = r.Entry(ctx, key); err != nil {
		return e, false, fmt.Errorf("read %s: %w", id, err)
	}
	return e, found, nil
}
