package entry

import "cmp"

// Prefer orders collections of the same objects, for slices.MinFunc and slices.SortFunc: readers use the first one. The
// criteria are, in this order: complete; whole objects; no list needed; the latest contact; the id.
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
