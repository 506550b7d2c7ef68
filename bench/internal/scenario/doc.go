// Package scenario holds what is measured: one file for each row, or family of rows, of the table of goals.
//
// A Scenario is measured by Cases: one subject, once, in a process of its own. The process runs Scenario.Run and reports a
// Result. The driver, which owns the server, prepares the case with Scenario.Before and acts with Scenario.Drive
// while the process waits in Bench.Ready.
//
// To add a scenario, write a file with a Scenario and name it in All; its goals are lines in package report.
package scenario
