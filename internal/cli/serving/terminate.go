package serving

import (
	"os"
	"runtime"
	"syscall"
)

// terminate asks a process to exit by sending SIGTERM. On Windows it kills the process.
func terminate(p *os.Process) {
	if runtime.GOOS == "windows" {
		_ = p.Kill()
		return
	}
	_ = p.Signal(syscall.SIGTERM)
}
