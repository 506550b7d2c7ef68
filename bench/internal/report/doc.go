// Package report makes rows of what was measured, compares them with the goals, and writes them.
//
// A Record is what the runs of a benchmark came to: the JSON that is kept. Its Rows are made by today's table of
// scenarios, with their goals. Markdown, Text and Restart, a picture, show them. A missed goal is a row that says so,
// and nothing else.
package report
