package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

type program struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // result of Wait; valid after done is closed
}

// startProgram starts a process that ends with the test. The process's standard error is appended to the file log. A
// goroutine calls online with each line of standard output.
func startProgram(t *testing.T, cmd *exec.Cmd, log string, online func(line []byte)) *program {
	t.Helper()
	p := &program{cmd: cmd, log: log, done: make(chan struct{})}
	cmd.SysProcAttr = dieWithParent()
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close() // the started process has its own copy of stderr
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// On Linux the process is killed when the thread that started it ends, so this thread must last.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			online(lines.Bytes())
		}
		p.err = cmd.Wait()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill() // Kill fails if the process has already ended
	<-p.done
}

func (p *program) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if p.err != nil {
		t.Fatalf("%s: %v\n%s", p.cmd.Args[0], p.err, p.stderr())
	}
}

func (p *program) crashed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *program) eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	eventually(t, what, func() string {
		if p.crashed() {
			t.Fatalf("the process ended while %s was awaited: %v\n%s", what, p.err, p.stderr())
		}
		return check()
	})
}

func (p *program) stderr() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}
