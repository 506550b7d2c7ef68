// Package field has the tests of docs/field-reports.md: public bug reports about other caches, tried on Larder.
package field
