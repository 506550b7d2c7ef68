// Package attributes compares the attributes that an informer's contents were written with (entry.Attributes: codec,
// types, transform, cluster, and the cluster's schema) with the attributes that a list would be written with now. A
// difference is a reason to list again, at once or later, and to rewrite every stored object.
//
// The reflector's goroutine calls it at every connect (Verify), at each list (ForList, Listed), and for the stored
// state (Load, Mismatch). Its calls of the user's functions end in time and do not panic. Close cancels a planned list.
package attributes
