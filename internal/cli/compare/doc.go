// Package compare compares two files for larder diff and the page of larder serve. Open each file as a Side and call
// Run. Fields returns the fields that differ between two states of an object; Concealed says which values must not be
// shown.
package compare
