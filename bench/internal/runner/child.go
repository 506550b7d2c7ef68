package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/proc"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

// ChildArgument is the first argument of a process that is a case; scenario and subject follow it, for those who look at the processes.
const ChildArgument = "child"

// The lines between driver and child, beside the case and the answer.
const (
	readyLine = "ready"
	goLine    = "go"
)

// answer is the last line of a child.
type answer struct {
	Result scenario.Result `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Child runs one case.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := make(chan string)
	// The reader ends with the process at the latest: nothing else can end a read of standard input.
	go func() {
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
		cancel(errors.New("the driver has gone"))
	}()
	var a answer
	result, err := runCase(ctx, lines, out)
	if a.Result = result; err != nil {
		a = answer{Error: err.Error()}
	}
	return json.NewEncoder(out).Encode(a)
}

func runCase(ctx context.Context, lines <-chan string, out io.Writer) (scenario.Result, error) {
	line, err := receive(ctx, lines)
	if err != nil {
		return nil, err
	}
	b := &scenario.Bench{}
	if err := json.Unmarshal([]byte(line), &b.Case); err != nil {
		return nil, err
	}
	s, known := scenario.Find(b.Case.Scenario)
	if !known {
		return nil, fmt.Errorf("there is no scenario %q", b.Case.Scenario)
	}
	b.Kind = load.Kinds[b.Case.Kind]
	b.Ready = func(ctx context.Context) error {
		if _, err := fmt.Fprintln(out, readyLine); err != nil {
			return err
		}
		_, err := receive(ctx, lines)
		return err
	}
	if b.Memory, err = proc.StartSampler(); err != nil {
		return nil, err
	}
	defer b.Memory.Stop()
	if b.Case.Profile == "" {
		return s.Run(ctx, b)
	}
	return profiled(b.Case, func() (scenario.Result, error) { return s.Run(ctx, b) })
}

func receive(ctx context.Context, lines <-chan string) (string, error) {
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
