// Package report makes rows from the measurements, compares them with the goals, and writes them.
//
// A Record has the results of a benchmark, and is stored as a JSON file. Its Rows depend on the current table of
// scenarios and goals. Markdown and Text write them, and Restart draws a picture. A missed goal is marked in its row;
// it is not an error.
package report
