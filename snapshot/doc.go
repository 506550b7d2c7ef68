// Package snapshot keeps the contents of stores, or of a live cluster, in a portable file: *.larder.
//
// README.md in this directory is the specification of the format, byte by byte.
//
// NewWriter writes a snapshot to a stream:
//
//	w, err := snapshot.NewWriter(out, snapshot.Header{ClusterID: id, TakenAt: now, Larder: version}, snapshot.WriterOptions{})
//	err = w.Begin(snapshot.Collection{Identity: pods, ResourceVersion: "42", Complete: true})
//	err = w.Add(record) // any number of times, keys ascending
//	err = w.End()
//	err = w.Close()
//
// Open reads one at random, NewReader front to back from a pipe. Both verify what they return.
package snapshot
