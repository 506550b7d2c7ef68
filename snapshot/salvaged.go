package snapshot

import (
	"cmp"
	"fmt"
	"slices"
)

// salvaged is a collection while it is being put together of what is whole.
type salvaged struct {
	number uint64
	// begun and ended say that its description was found, at its beginning or its end; c is the last one.
	begun, ended bool
	c            Collection
	entries      []entry
	numbers      []uint32 // of the frames of entries
	objects      int
	bytes        int64
}

// name is empty if it is not known.
func (c *salvaged) name() string {
	if !c.begun && !c.ended {
		return ""
	}
	return c.c.Identity.String()
}

// describe takes a collection's description, and says what is wrong with it.
func (s *salvager) describe(f frame) string {
	n, rest, ok := cutNumber(f.head)
	if !ok || len(rest) > 0 || n >= maxCollections {
		return "its head can not be read"
	}
	d, err := s.file.format.collection(f.body)
	if err != nil {
		return "the collection's description can not be read: " + textError(err)
	}
	c := s.of(n)
	if c.ended || c.begun && (f.kind == kindCollection || c.c.Identity != d.Identity) {
		return "the collection has another description already"
	}
	c.c, s.open = d, c
	c.begun = c.begun || f.kind == kindCollection
	if f.kind == kindEnd {
		c.ended, s.open = true, nil
	}
	return ""
}

// block takes a block, and says what is wrong with it.
func (s *salvager) block(f frame) string {
	head, ok := parseBlockHead(f.head)
	if !ok || head.collection >= maxCollections {
		return "its head can not be read"
	}
	c := s.of(head.collection)
	last := ""
	if n := len(c.entries); n > 0 {
		last = c.entries[n-1].last
	}
	b, wrong := parseBlock(f, s.file.format, last)
	if wrong == "" && c.ended {
		wrong = "its collection has ended"
	}
	if wrong != "" {
		return wrong
	}
	c.entries = append(c.entries, entry{
		first: head.first, last: head.last, offset: f.offset, length: uint64(f.total()), count: head.count, digest: f.digest,
	})
	c.numbers = append(c.numbers, f.number)
	c.objects += int(head.count)
	c.bytes += b.bytes
	return ""
}

// finish makes the index of what was found.
func (s *salvager) finish() {
	s.report.Whole = s.tail && s.refs == len(s.order)
	slices.SortFunc(s.order, func(a, b *salvaged) int { return cmp.Compare(a.number, b.number) })
	for _, c := range s.order {
		id := c.c.Identity.ID()
		_, twice := s.file.byID[id]
		switch {
		case twice && c.name() != "":
			s.report.Losses = append(s.report.Losses, c.loss("the collection is there twice"))
		case c.name() == "":
			s.report.Losses = append(s.report.Losses, c.loss("what collection it is of is lost"))
		default:
			s.report.Whole = s.report.Whole && c.whole()
			s.add(id, c)
			continue
		}
		s.report.Whole = false
	}
	slices.SortStableFunc(s.report.Losses, func(a, b Loss) int { return cmp.Compare(a.Offset, b.Offset) })
}

// whole reports whether all that its description counts was found.
func (c *salvaged) whole() bool {
	return c.ended && c.c.Objects == c.objects && c.c.Blocks == len(c.entries)
}

// loss is all blocks of c.
func (c *salvaged) loss(reason string) Loss {
	l := Loss{DamageError: DamageError{Block: -1, Collection: c.name(), Reason: reason}, Blocks: len(c.entries)}
	for i, e := range c.entries {
		if i == 0 {
			l.Block, l.Offset, l.First = int(c.numbers[i]), int64(e.offset), e.first
		}
		l.Last = e.last
		l.Length += int64(e.length)
	}
	return l
}

// add puts c into the file's index.
func (s *salvager) add(id string, c *salvaged) {
	d := c.c
	switch {
	case !c.ended:
		d.Complete, d.MustRelist = false, "salvaged from a damaged snapshot, which may have had more objects"
	case d.Objects < c.objects:
		d.Complete, d.MustRelist = false, "salvaged from a damaged snapshot, whose description has fewer objects than it"
	case d.Objects != c.objects || d.Blocks != len(c.entries):
		d.Complete, d.MustRelist = false, fmt.Sprintf("salvaged from a damaged snapshot, of which %d objects are lost", d.Objects-c.objects)
	}
	d.Objects, d.Bytes, d.Blocks = c.objects, c.bytes, len(c.entries)
	var ref collectionRef
	if len(c.entries) > 0 {
		ref.pages = []pageRef{{first: c.entries[0].first}}
		d.noteKey(c.entries[0].first)
	}
	f := s.file
	f.byID[id] = len(f.refs)
	f.refs = append(f.refs, ref)
	f.salvaged, f.numbers = append(f.salvaged, c.entries), append(f.numbers, c.number)
	f.manifest.Collections = append(f.manifest.Collections, d)
	s.report.Collections++
	s.report.Objects += c.objects
	s.report.Bytes += c.bytes
}
