//go:build !linux

package store_test

import "testing"

// mountSmall mounts nothing on this system.
func mountSmall(*testing.T) (dir string, ok bool) { return "", false }
