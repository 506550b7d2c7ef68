package larder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/internal/cli"
	"github.com/larder-dev/larder/internal/cli/command"
)

// Argument is the first argument of this program when it runs as larder. The arguments of larder's command line follow.
const Argument = "larder"

// Main runs the command line, and returns its exit code.
func Main(ctx context.Context, args []string) int {
	return cli.Run(ctx, args, command.IO{Out: os.Stdout, Err: os.Stderr})
}

// Process is a running larder sync. The log file is beside the store. The caller must stop the process.
type Process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan error
}

// StartSync starts larder sync from a server into a store, with additional arguments.
func StartSync(access cluster.Access, store string, more ...string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{Argument, "sync", "--store", store, "--server", access.Host, "--token", access.Token}, more...)
	if access.CA != nil {
		if err := os.WriteFile(store+".ca", access.CA, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--certificate-authority", store+".ca")
	}
	log, err := os.Create(store + ".log")
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(program, args...), log: log, ended: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended by itself.
func (p *Process) Ended() bool { return len(p.ended) > 0 }

// Stop makes larder sync commit its changes and exit, and waits for the exit. Unless the exit code is 0, the returned
// error contains the log.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that the process has exited; Wait returns the reason
	err := errors.Join(<-p.ended, p.log.Close())
	if err != nil {
		text, _ := os.ReadFile(p.log.Name()) // without the log the error is still returned
		err = fmt.Errorf("larder sync: %w: %s", err, text)
	}
	return err
}
