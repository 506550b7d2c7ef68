// Package attributes compares what an informer's contents were written with, the codec, the types, the transform, the
// cluster and its schema, with what they would be written with now (entry.Attributes). A difference is a reason to list
// again, at once or later, and to write every body anew.
//
// The reflector's goroutine asks it at every connect (Verify), at each list (ForList, Listed), and of what is stored
// (Load, Mismatch). Its calls of the user's functions end in time and do not panic. Close ends what it has planned.
package attributes
