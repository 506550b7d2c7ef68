package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running child process with a log file.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // result of Wait; valid after done is closed
}

// StartProcess starts a program with additional environment variables, and a goroutine that waits for the end of the
// program. The program's output is appended to logPath. On Linux the kernel kills the program when the current process
// dies.
func StartProcess(name, logPath string, env []string, program string, args ...string) (*Process, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{name: name, log: logPath, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		defer close(p.done)
		defer logFile.Close()
		// Pdeathsig refers to the parent thread, so that thread must outlive the child (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// Kill kills the child and waits for it.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails if the child has already ended
	<-p.done
}

// Terminate sends SIGTERM to the child and waits for the child's end. If the child fails, or ended before, the error
// includes the end of its log.
func (p *Process) Terminate() error {
	signalled := p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	if signalled != nil || p.err != nil {
		return p.Exited()
	}
	return nil
}

// Exited returns an error with the end of the log if the child has ended.
func (p *Process) Exited() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %w\n%s", p.name, p.err, p.Log())
	default:
		return nil
	}
}

// Log returns the end of the child's output.
func (p *Process) Log() string { return tail(p.log, 4096) }

func tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) > n {
		text = text[len(text)-n:]
	}
	return string(text)
}
