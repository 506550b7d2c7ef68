package serving

import (
	"os"
	"runtime"
	"syscall"
)

// terminate asks a process to end, where that is possible, and ends it elsewhere.
func terminate(p *os.Process) {
	if runtime.GOOS == "windows" {
		_ = p.Kill()
		return
	}
	_ = p.Signal(syscall.SIGTERM)
}
