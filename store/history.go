package store

import (
	"context"
	"strconv"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/internal/read"
)

// History returns the latest changes of the collection; nil unless CollectionOptions.History asks for them.
func (c *Collection) History() *history.Window { return c.in.History }

// beginHistory begins the history with the latest changes that the file has, if it keeps a changelog, and else at the
// resourceVersion of the stored state.
func (c *Collection) beginHistory(ctx context.Context, bound int) error {
	if c.in.History == nil {
		return nil
	}
	info, err := c.read.Info(ctx)
	if err != nil || !info.Complete {
		return err
	}
	if info.MustRelist != "" { // what led to the state is not known
		at, _ := strconv.ParseUint(info.ResourceVersion, 10, 64)
		c.in.History.Recall(nil, at+1, info.ResourceVersion)
		return nil
	}
	changes, floor, err := c.read.Recall(ctx, bound)
	if err != nil {
		return err
	}
	if c.in.History.Recall(changes, floor, info.ResourceVersion) {
		timeline, _ := c.in.History.Timeline()
		c.recorded.Store(timeline)
	}
	return nil
}

// endHistory ends the history once the collection accepts no writes. The caller holds in.Front.
func (c *Collection) endHistory() {
	if c.in.History != nil {
		c.in.History.End()
	}
}

// historyNow returns the newest Position; the zero one without a history.
func (c *Collection) historyNow() (at history.Position) {
	if c.in.History != nil {
		at, _ = c.in.History.Now()
	}
	return at
}

// Page is a run of entries in key order, read at one moment.
type Page struct {
	Entries []entry.Entry
	// More says that entries may follow, behind Last.
	More bool
	Last string
	// Info is the state of the collection at that moment, and At its place in the collection's history; the zero Position
	// without one.
	Info entry.Info
	At   history.Position
}

// PageOptions says which entries a Page has.
type PageOptions struct {
	// After is the key behind which the page begins. Empty is the first key.
	After string
	// Prefix is what all keys begin with, such as a namespace and a slash, or one key. Empty is every key.
	Prefix string
	// Limit is the number of entries in the page, 500 at most, the default.
	Limit int
	// Bytes is about how many bytes of payloads the page has, 4 MiB at most, the default. It ends with the entry that
	// exceeds them.
	Bytes int
	// Memory is for the payloads of one page after the other, for those who read many: they are valid until it is given
	// to Page again. It grows as it is needed. Default: the payloads are the caller's.
	Memory *[]byte
}

func (o PageOptions) query() read.PageQuery { return read.PageQuery(o) }

// Page reads a page of entries, committed or not; see Store.Records for what is committed. The entries are the
// caller's. An entry that cannot be read ends the page: the error is an entry.RecordError, and the page has what is
// before it.
func (c *Collection) Page(ctx context.Context, o PageOptions) (p Page, err error) {
	found, err := c.read.PageOfEntries(ctx, o.query(), func() { p.At = c.historyNow() })
	p.Entries, p.More, p.Last, p.Info = found.Entries, found.More, found.Last, found.Info
	return p, err
}

// CountKeys returns how many keys begin with prefix.
func (c *Collection) CountKeys(ctx context.Context, prefix string) (int, error) {
	return c.read.CountKeys(ctx, prefix)
}

// CountKeys returns how many keys begin with prefix.
func (v *View) CountKeys(ctx context.Context, prefix string) (int, error) {
	return v.read.CountKeys(ctx, prefix)
}

// Opened returns the collection of that identity if it is open; else nil.
func (s *Store) Opened(id entry.Identity) *Collection {
	id, err := id.Canonical()
	if err != nil {
		return nil
	}
	for _, c := range s.live.list() {
		if c.id == id {
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

// Page is Collection.Page for what is committed.
func (v *View) Page(ctx context.Context, o PageOptions) (Page, error) {
	found, err := v.read.PageOfEntries(ctx, o.query(), func() {})
	return Page{Entries: found.Entries, More: found.More, Last: found.Last, Info: found.Info}, err
}
