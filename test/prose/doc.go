// Command prose counts phrases that make comments and documents hard to read, and prints them by package:
//
//	go run ./test/prose [DIRECTORY]
//
// Each counted phrase stands in place of a noun: "what is pending" for "uncommitted changes", "whoever asks" for "the
// caller". The tests of this package, which make lint runs, bound the count for each package and document, and check
// that comments name only declarations that exist.
package main
