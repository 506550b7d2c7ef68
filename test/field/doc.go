// Package field has the trials of docs/field-reports.md: public bug reports about other caches, repeated with Larder.
//
// Reports and ReportsOfServers return the trials. The tests of this package run them on the fake API server, and
// test/e2e/field on kube-apiserver. Between informer and server, a proxy changes the answers as the report describes.
// The comment of a trial states the defect that Larder must not have.
package field
