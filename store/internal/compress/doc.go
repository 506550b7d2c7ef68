// Package compress compresses payloads with zstd and a dictionary that is made of some of them: objects of one kind are
// alike.
//
// A Dictionary never changes. A record names the one that its payload is compressed with, so a file keeps each for as
// long as a record names it. A Compressor has the one for new records, and makes it once it has seen enough;
// docs/adr/0007 says why of raw parts of payloads, and how large.
//
// Dictionaries reads and writes the records of dictionaries. Package copier writes them, too, when it seals a file
// anew.
package compress
