// Command mutants introduces faults into Larder, one at a time, and reports whether the responsible test fails.
//
//	make mutants                          all mutants
//	go run ./test/mutants -list           prints the mutants
//	go run ./test/mutants -run store/     mutants whose names match a regular expression
//
// A mutant is a fault in one place of the code. It names the promise that it breaks, and the test that must fail: a
// test written for that promise. A test that merely notices a changed count or golden file does not guard the promise,
// so a mutant does not name it.
//
// The work tree stays unchanged: go test reads the changed file through -overlay. All named tests must first pass on
// the unchanged code. Then each mutant is compiled and its test is run, with one of these outcomes:
//
//	caught            the named test failed; its first message is printed
//	SURVIVED          the test passed: no test guards the promise
//	DIED              the test did not end: a time-out, or an exit without a failure
//	DOES NOT COMPILE  the mutant is not valid Go
//	ROTTED            the file does not contain the old text exactly once
//
// The exit status is 1 unless all mutants are caught.
//
// # A new mutant
//
// Add it to the list of its package (store_commit.go, informer.go, …). Take the smallest change that breaks the
// promise, and a test that uses the exported API: then a rewrite changes only the old and new text of the mutant. A
// mutant that survives needs a new test. A fault without an observable effect is no mutant.
package main
