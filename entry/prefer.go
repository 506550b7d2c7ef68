package entry

import "cmp"

// Prefer orders collections that hold the same objects, for slices.MinFunc and slices.SortFunc: readers get the first
// one. Complete collections come first, then those with whole objects, then those that need no list, then the one with
// the latest contact. The id decides among equals.
func Prefer(a, b Info) int {
	return cmp.Or(
		trueFirst(a.Complete, b.Complete),
		trueFirst(a.Identity.Representation != Metadata, b.Identity.Representation != Metadata),
		trueFirst(a.MustRelist == "", b.MustRelist == ""),
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
