// Package testresidency has the residency that informers get in tests, so that the same tests can be run with each. The
// environment variable LARDER_TEST_RESIDENCY names it: "All" or "None". Default: All.
//
// Tests that make informers take it from [Of], or from [FromEnv] where there is no testing.TB. A test of a promise of
// one residency sets that residency itself.
//
// It is not in storetest so that the modules of the adapter and of the e2e tests do not need storetest's imports.
package testresidency
