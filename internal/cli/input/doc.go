// Package input is what a command reads: the file that is named, what opens it, and what of it answers.
//
// [FromFlag] is --from, with the keys and passphrases that open what is encrypted, and opens a source.Source; an error
// says what is wrong with the file and what to do (PathError, ReadError, OpenError). [Choose] finds the collections
// that answer one [Request], as get makes it; [SelectFlags] say what whole snapshots, exports and comparisons take. A
// [Resource] is matched as kubectl does ([MatchResource]), and [DidYouMean] says what may have been meant. The Note
// functions say what a file does not have.
package input
