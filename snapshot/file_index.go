package snapshot

import (
	"errors"
	"io"
)

// prologue reads the first bytes and says how many there are.
func (f *File) prologue(known map[uint32]format) (size int, err error) {
	if known == nil {
		known = formats()
	}
	data := make([]byte, min(f.size, int64(prologueMax)))
	if n, err := f.in.ReadAt(data, 0); n < len(data) {
		return 0, &DamageError{Block: -1, Reason: "its first bytes cannot be read", Err: notEOF(err)}
	}
	p, size, err := parsePrologue(data, known)
	if err != nil {
		return 0, err
	}
	f.id, f.format, f.manifest.Format = p.id, known[p.version], p.version
	return size, nil
}

// index reads the footer, the tail, and the description of each collection.
func (f *File) index(begin int) error {
	cut := &DamageError{Block: -1, Offset: f.size,
		Reason: "its end is missing: it was cut short, or is still being written"}
	at := f.size - footerSize
	if at < int64(begin) {
		return cut
	}
	data := make([]byte, footerSize)
	if n, err := f.in.ReadAt(data, at); n < len(data) {
		cut.Err = notEOF(err)
		return cut
	}
	foot, ok := parseFooter(data)
	if !ok || foot.id != f.id || foot.offset+uint64(foot.length) != uint64(at) || foot.offset > uint64(at) {
		return cut
	}
	buf, err := f.buffer()
	if err != nil {
		return err
	}
	defer f.buffers.Put(buf)
	tail, err := f.frame(buf, span{foot.offset, uint64(foot.length)}, kindTail, -1)
	if err != nil {
		return err
	}
	manifest, refs, ok := parseTail(tail.body, foot.offset)
	if !ok || len(tail.head) != digestSize {
		return f.damage(tail.frameHead, -1, "the index cannot be read")
	}
	f.manifest.Digest = [digestSize]byte(tail.head)
	if err := f.header(buf, manifest); err != nil {
		return err
	}
	for _, ref := range refs {
		if err := f.collection(buf, ref); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) header(buf *buffer, at span) error {
	m, err := f.frame(buf, at, kindManifest, -1)
	if err != nil {
		return err
	}
	if f.manifest.Header, err = f.format.header(m.body); err != nil {
		return f.damage(m.frameHead, -1, "the manifest cannot be read: "+textError(err))
	}
	return nil
}

// collection reads the description of the next collection, at its end.
func (f *File) collection(buf *buffer, ref collectionRef) error {
	end, err := f.frame(buf, ref.end, kindEnd, -1)
	if err != nil {
		return err
	}
	c, err := f.format.collection(end.body)
	if err != nil {
		return f.damage(end.frameHead, -1, "the collection's description cannot be read: "+textError(err))
	}
	if len(ref.pages) > 0 {
		c.noteKey(ref.pages[0].first)
	}
	id := c.Identity.ID()
	if _, twice := f.byID[id]; twice || !isNumber(end.head, len(f.refs)) {
		return f.damage(end.frameHead, -1, "the index names it where another collection should be")
	}
	f.byID[id] = len(f.refs)
	f.refs = append(f.refs, ref)
	f.manifest.Collections = append(f.manifest.Collections, c)
	return nil
}

// isNumber says whether a frame's head is a number and nothing else.
func isNumber(head []byte, n int) bool {
	v, rest, ok := cutNumber(head)
	return ok && len(rest) == 0 && v == uint64(n)
}

// notEOF is err, or nil where that only says that the file has ended.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
