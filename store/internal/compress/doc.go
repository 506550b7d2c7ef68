// Package compress compresses payloads with zstd and a dictionary. A dictionary is made of some of the payloads, since
// objects of one kind are alike.
//
// A Dictionary never changes. A record names the dictionary that compressed its payload, so the file keeps each
// dictionary as long as a record names it. A Compressor holds the dictionary for new records, and makes it once it has
// enough payloads. docs/adr/0007 explains why dictionaries are raw parts of payloads, and their size.
//
// Dictionaries reads and writes the records of dictionaries. Package copier also writes them, when it reseals a file.
package compress
