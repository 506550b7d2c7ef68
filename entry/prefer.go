package entry

import "cmp"

// Prefer compares the Infos of two collections of one resource, for slices.MinFunc and slices.SortFunc. The collection
// that readers should use sorts first. The criteria are, in this order: a complete list; whole objects, not only
// metadata; no need for a relist; a later last contact; a lower Identity.ID.
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
