// Package symptom says where docs/troubleshooting.md explains an error: Of returns the URL, and Errors is every
// sentinel error that a program may see, with its section. Tests hold that each exported one is among them, and that
// its section has its text and its name.
package symptom
