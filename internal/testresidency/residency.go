package testresidency

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-dev/larder/store"
)

const env = "LARDER_TEST_RESIDENCY"

// FromEnv returns the residency that LARDER_TEST_RESIDENCY names, All if it is not set, and an error if it names none.
func FromEnv() (store.Residency, error) {
	text := os.Getenv(env)
	switch text {
	case "", store.All.String():
		return store.All, nil
	case store.None.String():
		return store.None, nil
	}
	if inner, found := strings.CutPrefix(text, "Bounded("); found {
		inner, closed := strings.CutSuffix(inner, ")")
		if bytes, err := strconv.ParseInt(inner, 10, 64); closed && err == nil && bytes > 0 {
			return store.Bounded(bytes), nil
		}
	}
	return store.All, fmt.Errorf("%s=%q names no residency; set it to All, None or Bounded(n) with n bytes, n > 0", env,
		text)
}

// Of is FromEnv for a test, which it fails if there is an error.
func Of(t testing.TB) store.Residency {
	t.Helper()
	r, err := FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
