// Package testresidency selects the residency of informers in tests. With All an informer keeps all decoded objects in
// memory; with None it reads them from the file. The environment variable LARDER_TEST_RESIDENCY is "All" or "None".
// Default: All.
//
// Tests that make informers get the residency from [Of], or from [FromEnv] if there is no testing.TB. A test of a
// promise about one residency sets that residency itself.
//
// The package is separate from storetest, so that the modules of the adapter and of the e2e tests do not need
// storetest's imports.
package testresidency
