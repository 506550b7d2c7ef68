// Package audit compares what an informer holds with what the server has, by the identity of every object: key, UID
// and resourceVersion. It finds what no watch brings back: events that a proxy has swallowed, a server that was
// rewound in a way that no guard sees, a record that the file has lost. It repairs nothing itself: it asks for a list.
//
// Informer.Audit and informer.Options.AuditEvery are the way to it; the results are a [Report] and the [Incident]s of
// informer.Status. The rest of this page is for who reads the code.
//
// # An audit
//
// [Auditor.Audit] reads the server page by page, by metadata where it can, and at a gentle rate. Each page is compared
// with the stored objects in its range of keys. What differs is usually only under way, so it is compared again once
// the stream has come to the resourceVersion of the page. What still differs is suspect. One suspect is enough to ask
// for a list that compares bodies, and the audit waits until that is stored.
//
// # What the informer tells
//
// The goroutine that writes the store tells the Auditor what it has stored (Changed), what was refused (Skipped), and
// when a list begins, is given up and ends. The Auditor answers with what the list has found to be wrong: what an
// audit suspects, every difference in a list that an audit asked for, and what a damaged file had lost. So an Incident
// says what was repaired, and not what was suspected.
//
// # The start
//
// [Auditor.Same] is the same comparison for a start: it reports whether the server has exactly what is stored.
//
// # Ownership
//
// New starts nothing. Run audits every now and then until its context ends; an audit that somebody else has called
// ends then too. Audits run one at a time. All methods may be called by any goroutine, but those that tell of stored
// changes and lists are called by the one that writes the store. No method of the [Subject] is called under a lock.
package audit
