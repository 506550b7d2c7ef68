package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

// ChildArgument is the first argument of a process that runs one benchmark case. Scenario and subject follow, so that
// ps shows them.
const ChildArgument = "child"

// message is sent by the process of a benchmark case. The driver sends the case at the start, and after each requested
// change.
type message struct {
	// Ready asks the driver to make the changes of the case. A message without Ready is the last one, and has the result.
	Ready  bool            `json:"ready,omitempty"`
	Result scenario.Result `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// runProcess runs a benchmark case in a separate process. It calls act each time the process is ready for changes. The
// process waits until act calls proceed.
func runProcess(
	ctx context.Context, c scenario.Case, act func(proceed func() error) error,
) (_ scenario.Result, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	cmd := exec.CommandContext(ctx, program, ChildArgument, c.Scenario, c.Subject.String())
	cmd.Env = append(os.Environ(), c.Subject.Env()...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = in.Close() // ends a process that waits for the driver's next message
		if waitErr := cmd.Wait(); waitErr != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s", waitErr, stderr.String()))
		}
	}()
	proceed := func() error { return json.NewEncoder(in).Encode(c) }
	if err := proceed(); err != nil {
		return nil, err
	}
	for said := json.NewDecoder(out); ; {
		var m message
		if err := said.Decode(&m); err != nil {
			return nil, fmt.Errorf("the process of the case has ended without a result: %w", err)
		}
		if m.Error != "" {
			return nil, errors.New(m.Error)
		}
		if !m.Ready {
			return m.Result, nil
		}
		if err := act(proceed); err != nil {
			kill() // the process would wait for the driver forever
			return nil, err
		}
	}
}

// Child runs the benchmark case that it reads from in, and writes the result to out. It ends within caseTimeout even if
// its driver has died.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	sent, say := json.NewDecoder(in), json.NewEncoder(out)
	result, err := runCase(ctx, sent, say)
	if err != nil {
		return say.Encode(message{Error: err.Error()})
	}
	return say.Encode(message{Result: result})
}

func runCase(ctx context.Context, sent *json.Decoder, say *json.Encoder) (scenario.Result, error) {
	var c scenario.Case
	if err := sent.Decode(&c); err != nil {
		return nil, err
	}
	measure, err := scenario.Measure(c)
	if err != nil {
		return nil, err
	}
	memory, err := proc.StartSampler()
	if err != nil {
		return nil, err
	}
	defer memory.Stop()
	b := &scenario.Bench{Case: c, Kind: load.KindOf(c.Kind), Memory: memory, Ready: func() error {
		return errors.Join(say.Encode(message{Ready: true}), sent.Decode(&c))
	}}
	if c.Profile == "" {
		return measure(ctx, b)
	}
	name := fmt.Sprintf("%s-%s-%d-%s", c.Scenario, c.Kind, c.N, strings.ReplaceAll(c.Subject.String(), " ", "-"))
	var result scenario.Result
	err = proc.Profile(filepath.Join(c.Profile, name), func() error {
		result, err = measure(ctx, b)
		return err
	})
	return result, err
}
