//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package wholefile

import "os"

// tryLock does nothing: on this system a file that a process has open cannot be removed.
func tryLock(*os.File) bool { return true }
