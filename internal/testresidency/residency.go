package testresidency

import (
	"fmt"
	"os"
	"testing"

	"github.com/larder-dev/larder/store"
)

const env = "LARDER_TEST_RESIDENCY"

// FromEnv returns the residency in LARDER_TEST_RESIDENCY, which says whether informers keep decoded objects in memory.
// Default: All. It fails if the value is invalid.
func FromEnv() (store.Residency, error) {
	text := os.Getenv(env)
	switch text {
	case "", store.All.String():
		return store.All, nil
	case store.None.String():
		return store.None, nil
	}
	return store.All, fmt.Errorf("%s=%q names no residency; set it to All or None", env, text)
}

// Of is FromEnv for tests. It fails the test if LARDER_TEST_RESIDENCY is invalid.
func Of(t testing.TB) store.Residency {
	t.Helper()
	r, err := FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
