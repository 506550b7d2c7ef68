//go:build !linux

package store_test

import "testing"

// mountSmall returns false, because the tests mount file systems only on Linux.
func mountSmall(*testing.T) (dir string, ok bool) { return "", false }
