// Package symptom maps errors to their explanations in docs/troubleshooting.md: Of returns the URL, and Errors lists
// every sentinel error that a program may see, with its section. Tests check that each exported sentinel error is
// listed, and that its section has its text and its name.
package symptom
