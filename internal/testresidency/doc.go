// Package testresidency says which residency the informers of a test run have, so that the same tests can be run with
// each: it is what the environment variable LARDER_TEST_RESIDENCY names, "All", "None" or "Bounded(n)", and All if that
// is not set. Rigs that make informers take it from [Of], or [FromEnv] where there is no test. A test of what one
// residency alone promises sets that one itself.
//
// It is apart from storetest because the modules of the adapter and of the e2e tests do not need what that imports.
package testresidency
