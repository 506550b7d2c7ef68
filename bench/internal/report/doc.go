// Package report makes rows of what was measured, compares them with the goals, and writes them: as JSON, which is the record of
// a run, and from that as text, Markdown and SVG.
//
// Build makes the rows. The goals are a table, in goals.go. A missed goal is a row that says so, and nothing else.
package report
