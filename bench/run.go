package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/runner"
	"github.com/larder-dev/larder/bench/internal/seeded"
	"github.com/larder-dev/larder/bench/internal/served"
	"github.com/larder-dev/larder/bench/internal/sizing"
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.render != "" {
		return s.publish(s.render, stdout, stderr)
	}
	dir, err := os.MkdirTemp(s.Dir, "larder-bench-")
	if err != nil {
		return err
	}
	s.Dir, s.Progress = dir, stderr
	if s.Profile != "" {
		if err := os.MkdirAll(s.Profile, 0o755); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	switch {
	case len(s.starts) > 0:
		err = runner.Starts(ctx, s.starts, dir, s.command, stdout)
	case len(s.programs) > 0:
		err = runner.Programs(ctx, s.programs, dir, s.command, stdout)
	case s.serve.Pods > 0:
		s.serve.Dir, s.serve.Command, s.serve.Runs = dir, s.command, s.Runs
		measure := served.Run
		if s.serve.Hostile {
			measure = served.Hostile
		}
		err = measure(ctx, s.serve, stdout, stderr)
	case len(s.seeds.Fleets) > 0:
		s.seeds.Dir, s.seeds.Command, s.seeds.Runs = dir, s.command, s.Runs
		s.seeds.Profile, s.seeds.Embedded = s.Profile, s.EmbeddedOnly
		err = seeded.Run(ctx, s.seeds, stdout, stderr)
	case len(s.sizes) > 0:
		err = sizing.Run(ctx, sizing.Options{Sizes: s.sizes, Dir: dir, Command: s.command}, stdout, stderr)
	default:
		err = s.measure(ctx, stdout)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func (s *settings) measure(ctx context.Context, stdout io.Writer) error {
	earlier, err := s.earlier()
	if err != nil {
		return err
	}
	outcome, failed := runner.Run(ctx, s.Options)
	if len(outcome.Samples) == 0 {
		return errors.Join(errors.New("nothing was measured"), failed)
	}
	record := report.Record{
		ID: time.Now().UTC().Format("20060102-150405"), Command: s.command,
		Machine: machine(), Server: outcome.Server, Commit: commit(ctx),
	}
	asked := report.Asked{Runs: s.Runs, Commit: record.Commit}
	if s.quick {
		record.ID, asked.Flags = "quick-"+record.ID, "-quick"
	}
	if s.EmbeddedOnly {
		asked.Flags = strings.TrimSpace(asked.Flags + " -embedded")
	}
	record.Cases = report.Cases(outcome.Samples, asked)
	if earlier != nil {
		record = earlier.Merge(record)
	}
	path, err := record.Write(s.results)
	if err == nil {
		err = s.publish(path, stdout, s.Progress)
	}
	return errors.Join(failed, err)
}

func (s *settings) earlier() (*report.Record, error) {
	if s.into == "" {
		return nil, nil
	}
	record, err := report.Read(s.into)
	if err != nil {
		return nil, err
	}
	if record.Machine != machine() {
		return nil, fmt.Errorf("%s was measured on %s, this is %s: figures of two machines do not belong side by side",
			s.into, record.Machine, machine())
	}
	s.results = filepath.Dir(s.into)
	return &record, nil
}

// publish prints a result file. If -docs is set, it also writes the page of the documentation, and the printed tables
// beside the result file.
func (s *settings) publish(path string, stdout, stderr io.Writer) error {
	record, err := report.Read(path)
	if err != nil {
		return err
	}
	if err := report.Text(stdout, record); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "Wrote", path)
	if s.docs == "" {
		return nil
	}
	images := filepath.Join(filepath.Dir(s.docs), "img")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	if _, err := report.Restart(images, record.Rows()); err != nil {
		return err
	}
	if err := record.WriteText(filepath.Dir(path)); err != nil {
		return err
	}
	page, err := os.Create(s.docs)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(page)
	return errors.Join(report.Markdown(out, record), out.Flush(), page.Close())
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// commit returns git's description of the source; "unknown" outside of a repository.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
