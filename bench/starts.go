package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-dev/larder/bench/internal/starts"
)

// startRuns is how often each informer is started at each size.
const startRuns = 15

// measureStarts is -starts. What was measured is printed also if a later size has failed.
func (s *settings) measureStarts(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp(s.Dir, "larder-starts-")
	if err != nil {
		return err
	}
	rows, err := starts.Measure(ctx, s.startSizes, startRuns, dir, stderr)
	starts.Markdown(stdout, rows, startRuns, strings.Join(append([]string{"go -C bench run ."}, quoted(args)...), " "))
	return errors.Join(err, os.RemoveAll(dir))
}

// numbers reads numbers with commas between them, in ascending order; none if text is empty.
func numbers(text string) (all []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number of objects", part)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all, nil
}
