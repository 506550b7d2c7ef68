// Package scenario holds what is measured: All is the table of scenarios, with the rows that each has in the results,
// and what these are to reach.
//
// A Scenario is measured by Cases: one subject, once, in a process of its own. The process runs Scenario.Run, or
// Scenario.Raw for the limit of what an informer can reach, and reports a Result. The driver (package runner) owns the
// server, and makes Scenario.Changes.
//
// To add a scenario, add it to All.
package scenario
