package seeded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// runProcess runs a benchmark case in a separate process. When the measurements have arrived, and before the stores
// stop, it calls answered.
func runProcess(ctx context.Context, c work, answered func()) (s started, err error) {
	program, err := os.Executable()
	if err != nil {
		return s, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return s, err
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	cmd := exec.CommandContext(ctx, program, ChildArgument, strconv.Itoa(c.Stores), strconv.Itoa(c.Pods))
	var stderr strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(text)), &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	if err := cmd.Start(); err != nil {
		return s, err
	}
	if err = json.NewDecoder(out).Decode(&s); err == nil {
		answered()
	} else {
		err = fmt.Errorf("the process of the case has ended without an answer: %w", err)
	}
	if ended := cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", ended, stderr.String()))
	}
	return s, err
}
