// Package dep is right everywhere.
package dep

// Name is a word.
const Name = "dep"
