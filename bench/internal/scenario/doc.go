// Package scenario defines the measurements: All returns the table of scenarios, with the rows that each has in the
// results, and the goals of these.
//
// A Case measures a Scenario for one subject, once, in a process of its own. The process runs Scenario.Run, or
// Scenario.Raw for the limit of what an informer can reach, and reports a Result. The driver (package runner) owns the
// server, and makes Scenario.Changes.
//
// To add a scenario, add it to All.
package scenario
