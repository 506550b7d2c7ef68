package engine

import (
	"slices"
	"strings"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// postingFew is the maximum number of entries in the slice of a posting, where each addition may move all of them.
const postingFew = 256

// posting holds the entries with one value in an index, in key order.
type posting struct {
	few  []*row
	many *btree.BTree[*row] // many replaces the slice few for more than postingFew entries.
}

func (p *posting) add(e *row) {
	if p.many != nil {
		p.many.ReplaceOrInsert(e)
		return
	}
	at, found := p.find(e)
	if found {
		return
	}
	p.few = slices.Insert(p.few, at, e)
	if len(p.few) > postingFew {
		p.many = btree.New(tableDegree, byKey)
		for _, e := range p.few {
			p.many.ReplaceOrInsert(e)
		}
		p.few = nil
	}
}

// remove removes the entry e of an object, and reports whether the posting is empty now.
func (p *posting) remove(e *row) (empty bool) {
	if p.many != nil {
		p.many.Delete(e)
		return p.many.Len() == 0
	}
	if at, found := p.find(e); found {
		p.few = slices.Delete(p.few, at, at+1)
	}
	return len(p.few) == 0
}

func (p *posting) find(e *row) (at int, found bool) {
	return slices.BinarySearchFunc(p.few, e, func(a, b *row) int { return strings.Compare(a.key, b.key) })
}

func (p *posting) len() int {
	switch {
	case p == nil:
		return 0
	case p.many != nil:
		return p.many.Len()
	}
	return len(p.few)
}

func (p *posting) each(fn func(e *row)) {
	switch {
	case p == nil:
	case p.many != nil:
		p.many.Ascend(func(e *row) bool {
			fn(e)
			return true
		})
	default:
		for _, e := range p.few {
			fn(e)
		}
	}
}
