package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is one running child. Its output goes to a log file.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been waited for
	err  error         // of Wait; read after done
}

// StartProcess starts a program, with env beside what this process has, and one goroutine that waits for it. Its output
// is added to the file logPath. On Linux the kernel kills it when this process dies.
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
		// The kernel's "parent" is the thread that forked: it must live as long as the
		// child (golang/go#27505).
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

// Kill ends the child at once and waits for it.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.done
}

// Terminate asks the child to end and waits for it. It returns an error with the end of the log if the child does not
// end well, or has ended before.
func (p *Process) Terminate() error {
	signalled := p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.done
	if signalled != nil || p.err != nil {
		return p.Exited()
	}
	return nil
}

// Exited returns an error with the end of the log if the child is no longer running.
func (p *Process) Exited() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %w\n%s", p.name, p.err, p.Log())
	default:
		return nil
	}
}

// Log is the end of what the child has written.
func (p *Process) Log() string { return tail(p.log, 4096) }

// tail returns the last n bytes of a file, for error messages.
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
