// Package field has the trials of docs/field-reports.md: public bug reports about other caches, tried on Larder.
//
// Reports and ReportsOfServers return them. The tests of this package run them on the fake API server, those of
// test/e2e/field on a real one. A proxy between the informer and the server changes the answers as the report says.
package field
