package boltcheck

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	bucketHeader = 16
	flagBucket   = 0x01
	// maxDepth is larger than the depth of any real bbolt tree, and small enough not to overflow the stack.
	maxDepth = 64
	// maxProblems is the number of problems at which Walk stops.
	maxProblems = 100
)

// WalkOptions are the options of Walk. The zero value walks every page.
type WalkOptions struct {
	// LeafDepth, if not 0, skips most leaves: in buckets that are nested deeper, the children of the lowest branches are
	// counted but not read. The walk still finds each page with two parents, and therefore each cycle. It reads about a
	// hundredth of the file. It does not find buckets and keys in the skipped leaves.
	LeafDepth int
	// Pace is called with the number of bytes of each page read, and may wait. An error of Pace ends the walk.
	Pace func(ctx context.Context, bytes int) error
	// Unsafe is called with the path of each bucket that bbolt must not read: a page below it is reached twice, is too
	// deep or cannot be read, or the elements of a branch are damaged, so that bbolt would follow arbitrary page ids.
	// With Unsafe, the walk continues after unreadable pages and after maxProblems.
	Unsafe func(path []string)
}

// Walk checks all pages of the file from the root. It returns the problems, a line each, at most 100 lines. The error
// is a read error or the error of the context.
func (f *File) Walk(ctx context.Context, o WalkOptions) ([]string, error) {
	return (&walker{f: f, o: o, ctx: ctx, seen: newBitmap(f.HighWater)}).walk()
}

func (w *walker) walk() ([]string, error) {
	list, _, err := w.f.readHead(w.f.Freelist, headerSize, w.head[:])
	if err == nil {
		err = w.claim(list)
	}
	switch {
	case err == nil:
	// A read error does not say which buckets are unsafe. So if the caller asked for all unsafe buckets, an unreadable
	// freelist does not end the walk.
	case errors.Is(err, ErrDamaged), w.o.Unsafe != nil:
		if err := w.add("freelist", err); err != nil {
			return w.end(err)
		}
	default:
		return w.end(err)
	}
	return w.end(w.bucket(tree{name: "/"}, w.f.Root))
}

// Range returns the problems, a line each, in those pages of a bucket that may have keys from low to high; a nil high
// is no bound. r is the file. The caller holds a read transaction, in which the file has that number of pages and none
// of them changes. root is the bucket's root page, or 0 for an inline bucket. Range does not read the freelist or other
// pages.
func Range(ctx context.Context, r io.ReaderAt, pageSize int, pages, root uint64, low, high []byte) ([]string, error) {
	if root == 0 {
		return nil, nil
	}
	f := &File{Meta: Meta{PageSize: pageSize, HighWater: pages}, r: r, free: newBitmap(pages)}
	w := &walker{f: f, ctx: ctx, seen: newBitmap(pages), only: &keyRange{low, high}}
	return w.end(w.page(tree{}, root, keyRange{}, 0))
}

type walker struct {
	f        *File
	o        WalkOptions
	ctx      context.Context
	seen     bitmap
	only     *keyRange
	problems []string
	// levels[:depth] are the buffers of the pages on the path from the root to the current page. Later buffers are kept
	// for reuse.
	levels []*level
	depth  int
	head   [headerSize]byte
}

type level struct {
	data     []byte
	elements []element
}

func (w *walker) descend() *level {
	if w.depth == len(w.levels) {
		w.levels = append(w.levels, &level{})
	}
	w.depth++
	return w.levels[w.depth-1]
}

func (w *walker) ascend() { w.depth-- }

func (l *level) elementsOf(p *page) ([]element, error) {
	elements, err := p.elements(l.elements)
	if err == nil {
		l.elements = elements
	}
	return elements, err
}

var errEnough = errors.New("too many problems")

func (w *walker) end(err error) ([]string, error) {
	switch {
	case errors.Is(err, errEnough):
		return append(w.problems, "and more"), nil
	case errors.Is(err, ErrDamaged):
		return append(w.problems, err.Error()), nil
	}
	return w.problems, err
}

func (w *walker) note(t tree, err error) error {
	if err == nil {
		return nil
	}
	unreadable := !errors.Is(err, ErrDamaged)
	if unreadable && (w.o.Unsafe == nil || w.ctx.Err() != nil) {
		return err
	}
	var loop *loopError
	if w.o.Unsafe != nil && (unreadable || errors.As(err, &loop)) {
		w.o.Unsafe(t.path)
	}
	return w.add("bucket "+t.name, err)
}

func (w *walker) add(where string, err error) error {
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, where+": "+err.Error())
	}
	if len(w.problems) >= maxProblems && w.o.Unsafe == nil {
		return errEnough
	}
	return nil
}

// loopError is damage that may make a reader of the tree loop, such as a page with two parents.
type loopError struct{ error }

func (e *loopError) Unwrap() error { return e.error }

func damaged(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrDamaged)...)
}

// claim marks a page and its overflow pages as in use. It fails if one of these pages is already in use, because then
// two elements point to it.
func (w *walker) claim(p page) error {
	for id := p.id; id <= p.id+p.overflow; id++ {
		if w.f.free.has(id) {
			return damaged("page %d is in use and in the freelist", id)
		}
		if !w.seen.set(id) {
			return &loopError{damaged("page %d is in use twice", id)}
		}
	}
	return nil
}

// keyRange is the range of keys that a page may have: from low, and below high unless high is nil.
type keyRange struct{ low, high []byte }

// touches reports whether a page with keys in the range page may have keys from r.low to r.high.
func (r *keyRange) touches(page keyRange) bool {
	return (r.high == nil || bytes.Compare(page.low, r.high) <= 0) &&
		(page.high == nil || bytes.Compare(page.high, r.low) > 0)
}

type tree struct {
	name string
	path []string // names of the nested buckets; empty for the root bucket
}

func (w *walker) bucket(t tree, root uint64) error {
	return w.note(t, w.page(t, root, keyRange{}, 0))
}

func (w *walker) page(t tree, id uint64, keys keyRange, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth || len(t.path) > maxDepth {
		return &loopError{damaged("page %d is more than %d pages deep", id, maxDepth)}
	}
	l := w.descend()
	defer w.ascend()
	p, err := w.f.readPage(id, l.data)
	if err != nil {
		return err
	}
	l.data = p.data
	if err := w.claim(p); err != nil {
		return err
	}
	if w.o.Pace != nil {
		if err := w.o.Pace(w.ctx, len(p.data)); err != nil {
			return err
		}
	}
	switch p.flags {
	case flagBranch:
		return w.branch(t, p, l, keys, depth)
	case flagLeaf:
		return w.leaf(t, p, l, keys)
	}
	return damaged("page %d is no leaf and no branch (flags %#x)", id, p.flags)
}

func (w *walker) branch(t tree, p page, l *level, keys keyRange, depth int) error {
	elements, err := l.elementsOf(&p)
	if errors.Is(err, ErrDamaged) {
		return &loopError{err}
	}
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		return &loopError{damaged("branch page %d is empty", p.id)}
	}
	if err := p.inOrder(elements, keys); err != nil {
		return err
	}
	if err := p.spans(elements, w.f.PageSize); err != nil {
		return err
	}
	// All leaves of a bucket have the same depth, so if the first child is a leaf, all children are.
	lowest := w.o.LeafDepth > 0 && len(t.path) > w.o.LeafDepth && w.isLeaf(elements[0].child)
	for i, e := range elements {
		if lowest {
			if err := w.note(t, w.claimUnread(e.child)); err != nil {
				return err
			}
			continue
		}
		below := keyRange{low: e.key, high: keys.high}
		if i+1 < len(elements) {
			below.high = elements[i+1].key
		}
		if w.only != nil && !w.only.touches(below) {
			continue
		}
		if err := w.note(t, w.page(t, e.child, below, depth+1)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) isLeaf(id uint64) bool {
	p, _, err := w.f.readHead(id, headerSize, w.head[:])
	return err == nil && p.flags == flagLeaf
}

func (w *walker) claimUnread(id uint64) error {
	if id < 2 || id >= w.f.HighWater {
		return damaged("page %d is not between 2 and %d", id, w.f.HighWater)
	}
	return w.claim(page{id: id})
}

func (w *walker) leaf(t tree, p page, l *level, keys keyRange) error {
	elements, err := l.elementsOf(&p)
	if err != nil {
		return err
	}
	if err := p.inOrder(elements, keys); err != nil {
		return err
	}
	if err := p.spans(elements, w.f.PageSize); err != nil {
		return err
	}
	for _, e := range elements {
		if e.flags&flagBucket == 0 {
			continue
		}
		inner := tree{name: fmt.Sprintf("%s%q/", t.name, e.key), path: append(slices.Clip(t.path), string(e.key))}
		if err := w.note(inner, w.nested(inner, p, e)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) nested(t tree, p page, e element) error {
	if e.valueSize < bucketHeader {
		return damaged("page %d: a bucket of %d bytes", p.id, e.valueSize)
	}
	head, err := p.read(e.value, bucketHeader, nil)
	if err != nil {
		return err
	}
	if root := binary.NativeEndian.Uint64(head); root != 0 {
		return w.page(t, root, keyRange{}, 0)
	}
	// bbolt stores a small bucket inline: the bucket's only page is part of the value.
	size := e.valueSize - bucketHeader
	if size < headerSize {
		return damaged("page %d: a bucket of %d bytes within it", p.id, e.valueSize)
	}
	data, err := p.read(e.value+bucketHeader, size, nil)
	if err != nil {
		return err
	}
	inline := page{
		id: p.id, flags: binary.NativeEndian.Uint16(data[8:]), count: int(binary.NativeEndian.Uint16(data[10:])),
		span: size, off: p.off + e.value + bucketHeader, data: data, r: p.r,
	}
	if inline.flags != flagLeaf {
		return damaged("page %d: the bucket within it has flags %#x", p.id, inline.flags)
	}
	elements, err := inline.elements(nil)
	if err != nil {
		return err
	}
	for _, e := range elements {
		if e.flags&flagBucket != 0 {
			return damaged("page %d: a bucket in a bucket within it", p.id)
		}
	}
	return inline.inOrder(elements, keyRange{})
}

const (
	elementSize = 16
	// maxKey is bbolt's limit on the length of a key.
	maxKey = 32768
)

type element struct {
	key   []byte
	child uint64
	// flags, value and valueSize belong to an element of a leaf page. value is the offset of the value in the page.
	flags            uint32
	value, valueSize int64
}

// elements decodes the elements of the page into buf, or into new memory if buf is too small. It fails if an element
// extends beyond the page.
func (p *page) elements(buf []element) ([]element, error) {
	heads, err := p.heads()
	if err != nil {
		return nil, err
	}
	order := binary.NativeEndian
	elements := slices.Grow(buf[:0], p.count)[:p.count]
	for i := range elements {
		h, at := heads[i*elementSize:], int64(headerSize+i*elementSize)
		e := &elements[i]
		*e = element{}
		var pos, keySize int64
		if p.flags == flagBranch {
			pos, keySize, e.child = int64(order.Uint32(h)), int64(order.Uint32(h[4:])), order.Uint64(h[8:])
		} else {
			e.flags, pos = order.Uint32(h), int64(order.Uint32(h[4:]))
			keySize, e.valueSize = int64(order.Uint32(h[8:])), int64(order.Uint32(h[12:]))
		}
		e.value = at + pos + keySize
		switch {
		case e.flags > flagBucket:
			return nil, damaged("page %d: element %d has flags %#x", p.id, i, e.flags)
		case keySize == 0 || keySize > maxKey:
			return nil, damaged("page %d: element %d has a key of %d bytes", p.id, i, keySize)
		case at+pos < int64(headerSize+p.count*elementSize) || e.value+e.valueSize > p.span:
			return nil, damaged("page %d: element %d lies outside of it", p.id, i)
		}
		if e.key, err = p.read(at+pos, keySize, nil); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

func (p *page) heads() ([]byte, error) {
	size := int64(p.count) * elementSize
	if headerSize+size > p.span {
		return nil, damaged("page %d has no room for %d elements", p.id, p.count)
	}
	return p.read(headerSize, size, nil)
}

// inOrder verifies that the keys of a page's elements ascend and lie in the range.
func (p *page) inOrder(elements []element, keys keyRange) error {
	low := keys.low
	for i, e := range elements {
		c := bytes.Compare(e.key, low)
		// Only the first key may equal low, which is the parent's copy of that key.
		if c < 0 || c == 0 && i > 0 || keys.high != nil && bytes.Compare(e.key, keys.high) >= 0 {
			return damaged("page %d: the key of element %d is out of order", p.id, i)
		}
		low = e.key
	}
	return nil
}

// spans verifies that the page has no more overflow pages than its elements need. bbolt frees a page with all its
// overflow pages, so a larger number would free other pages. One extra page is accepted if the elements fill their
// pages exactly, because bbolt before 1.4 allocated one.
func (p *page) spans(elements []element, pageSize int) error {
	end := int64(headerSize)
	for _, e := range elements {
		end = max(end, e.value+e.valueSize)
	}
	if most := uint64(end) / uint64(pageSize); p.overflow > most {
		return damaged("page %d has %d overflow pages, and its elements take %d", p.id, p.overflow, most)
	}
	return nil
}
