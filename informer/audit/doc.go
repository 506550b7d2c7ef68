// Package audit compares an informer's stored objects with the server's, by key, UID and resourceVersion. It finds
// differences that no watch corrects: an event that a proxy dropped, a rewound server that the reflector's guards did
// not notice, a record that the file has lost. It does not repair them itself; it requests a list.
//
// Call Informer.Audit or set informer.Options.AuditEvery. The results are a [Report], a line in the log that names up
// to ten keys, and a count in informer.Status.Incidents.
//
// # An audit
//
// [Auditor.Audit] lists the server's objects page by page, as metadata if the server supports it, and pauses between
// pages. Each page is compared with the stored objects in its range of keys. Most differences are events that have not
// arrived yet, so they are checked again once the watch has reached the resourceVersion of the page. If an object still
// differs, the audit requests a list that compares whole objects, and waits until the list is stored.
//
// # Reports from the informer
//
// The process loop reports to the Auditor. Changed and Skipped name objects that it has deleted or could not store;
// these do not count. ListBegun, ListGivenUp and ListEnded report the progress of a list.
//
// # Ownership
//
// New starts no goroutine. Run audits periodically until its context ends. The end of Start's context ends all audits.
// Audits run one at a time. All methods may be called by any goroutine, except the reports from the informer: only the
// process loop makes these. No method of the [Subject] is called with a lock held.
package audit
