// Package query selects objects by namespace, labels and fields.
//
// Pass a Query to Select or Each of a store.Reader. Query.Matches checks a single object. Query.ForEntries returns a
// function that checks entries whose objects are still encoded.
//
// A reader of many objects calls Query.Matcher once. Matcher.Prefix is the range of keys to read. Matcher.Payload
// checks a payload without decoding it, where that is possible; otherwise decode the object and call Matcher.Object. A
// Query is a value and may be shared; a Matcher belongs to one read.
//
// The package reads no file and does not know collections: package store imports it.
package query
