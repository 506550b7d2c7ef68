// Package input finds and opens the file that a command reads, and chooses its collections.
//
// [FromFlag] is --from, with the keys and passphrases for encrypted files; it opens a source.Source. Errors explain the
// problem with the file and have a hint (PathError, ReadError, OpenError). [Choose] finds the collections that answer a
// [Request] of larder get; [SelectFlags] selects objects for snapshots, exports and comparisons. A [Resource] is
// matched as in kubectl (source.Match), and [DidYouMean] suggests corrections. The Note functions print the gaps of a
// file.
package input
