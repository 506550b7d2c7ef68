// Command mutants plants faults in Larder, one at a time, and says whether the test that must notice each one does.
//
//	make mutants                          all of them
//	go run ./test/mutants -list           what they are
//	go run ./test/mutants -run store/     some of them, by a regular expression
//
// Each fault (mutant) breaks a promise that it names, in one place of the code, and names the test that must fail
// because of it: a test of the package, written for that promise. A fault that only upsets a count or a golden file
// proves nothing about the promise, so such a test is not named. That a test fails says that the promise is guarded.
//
// The work tree is not touched: go test takes the changed file by -overlay. First every named test must pass on the
// code as it is. Then each mutant is compiled and its one test run, which ends in one of
//
//	caught            the named test has failed; its first message is shown
//	SURVIVED          it has passed: the promise has no guard
//	DIED              it has not come to its end: a time-out, or an exit without a failure
//	DOES NOT COMPILE  the mutant is not valid Go
//	ROTTED            the code has changed, and the old text is not in the file exactly once
//
// The exit status is 1 unless all are caught.
//
// # A new mutant
//
// Add it to the list of its package (store_commit.go, informer.go, …). Take the smallest change that breaks the
// promise, and a test that uses the exported API, so that both outlive a rewrite: then only the texts are pointed at
// the new code. A mutant that survives needs a new test, unless nobody could notice it; then it is none.
package main
