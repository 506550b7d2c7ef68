// Package query selects objects by namespace, labels and fields.
//
// A Query says what is wanted. Pass it to Select or Each of a store.Reader, ask Matches about a single object, or
// take the function of ForEntries for objects that are still encoded.
//
// Whoever reads many objects prepares the Query once: Query.Matcher returns a Matcher, which names the range of keys to
// read (Matcher.Prefix), then judges each payload without decoding it (Matcher.Payload) and decodes only where that
// cannot tell (Matcher.Object). A Query is a value and may be shared; a Matcher belongs to one read.
//
// The package reads no file and knows no collection: package store imports it.
package query
