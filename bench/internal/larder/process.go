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

// Argument is the first argument of the process that is larder: the others are those of the command line.
const Argument = "larder"

// Main runs the command line, and returns its exit code.
func Main(ctx context.Context, args []string) int {
	return cli.Run(ctx, args, command.IO{Out: os.Stdout, Err: os.Stderr})
}

// Process is a running larder sync. Its log is beside the store. The caller must stop it.
type Process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan error
}

// StartSync starts larder sync of a server into a store, with further arguments.
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

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended by itself.
func (p *Process) Ended() bool { return len(p.ended) > 0 }

// Stop ends the process, which writes what it has not written, and waits for it. It fails, with the log, if the process
// has not ended well.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended, which Wait tells
	err := errors.Join(<-p.ended, p.log.Close())
	if err != nil {
		text, _ := os.ReadFile(p.log.Name()) // the error is told without it
		err = fmt.Errorf("larder sync: %w: %s", err, text)
	}
	return err
}
