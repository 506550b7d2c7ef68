//go:build !linux

package store_test

import "testing"

// mountSmall returns false: the tests mount no file system on this operating system.
func mountSmall(*testing.T) (dir string, ok bool) { return "", false }
