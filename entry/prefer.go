package entry

import "cmp"

// Prefer orders collections that hold the same objects, for slices.MinFunc and slices.SortFunc: readers get the first
// one. Complete collections come first, then those with whole objects, then the one with the latest contact. The id
// decides what is left.
func Prefer(a, b Info) int {
	return cmp.Or(
		trueFirst(a.Complete, b.Complete),
		trueFirst(a.Identity.Representation != Metadata, b.Identity.Representation != Metadata),
		b.LastContact.Compare(a.LastContact),
		cmp.Compare(a.Identity.ID(), b.Identity.ID()),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
