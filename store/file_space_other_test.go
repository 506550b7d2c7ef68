//go:build !linux

package store_test

import "testing"

// mountSmall mounts nothing: there is no way to do it here.
func mountSmall(*testing.T) (dir string, ok bool) { return "", false }
