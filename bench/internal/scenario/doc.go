// Package scenario defines the measurements. All returns the table of scenarios, with the rows of each in the results,
// and the goals of the rows.
//
// A Case measures a Scenario for one subject, once, in a separate process. The process runs Scenario.Run, or
// Scenario.Raw for the upper limit of an informer, and reports a Result. The driver (package runner) owns the server,
// and makes Scenario.Changes.
//
// To add a scenario, add it to All.
package scenario
