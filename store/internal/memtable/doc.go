// Package memtable holds what a collection has been given and its file does not have yet: small, ordered, and cheap to
// clone, with the index terms of what it holds.
//
// The truth is the table over the file. Whoever reads captures a View, begins a transaction, and looks with IsAt
// whether a commit came in between; then the two are one state. Writes are never changed once they are in a table, but
// for what a commit makes of their payloads.
package memtable
