package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// process is a child, as its driver sees it.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr strings.Builder
}

// startProcess starts this program again, with a case.
func startProcess(ctx context.Context, c scenario.Case) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program, ChildArgument, c.Scenario, c.Subject.String())}
	p.cmd.Env = append(os.Environ(), c.Subject.Env()...)
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(stdout)
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(p.in).Encode(c); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// proceed ends the child's wait.
func (p *process) proceed() error {
	_, err := fmt.Fprintln(p.in, goLine)
	return err
}

// next returns the child's next line: whether it is ready, or else its result.
func (p *process) next() (ready bool, result scenario.Result, err error) {
	if !p.out.Scan() {
		return false, nil, errors.Join(errors.New("the process of the case has ended without a result"), p.out.Err())
	}
	if p.out.Text() == readyLine {
		return true, nil, nil
	}
	var a answer
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		return false, nil, fmt.Errorf("the process of the case said %q: %w", p.out.Text(), err)
	}
	if a.Error != "" {
		return false, nil, errors.New(a.Error)
	}
	return false, a.Result, nil
}

// end closes the child's input, which ends it if it has not ended, and waits for it.
func (p *process) end() error {
	_ = p.in.Close() // the child may have closed it already
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, p.stderr.String())
	}
	return nil
}
