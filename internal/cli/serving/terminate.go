package serving

import (
	"os"
	"runtime"
	"syscall"
)

// terminate asks a process to exit with SIGTERM, or kills it on Windows.
func terminate(p *os.Process) {
	if runtime.GOOS == "windows" {
		_ = p.Kill()
		return
	}
	_ = p.Signal(syscall.SIGTERM)
}
