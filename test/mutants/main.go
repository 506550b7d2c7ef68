package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == cacheCommand { // go has started this program as its build cache
		if err := (buildCache{ordinary: os.Args[2], own: os.Args[3]}).serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "mutants: build cache:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pattern := flag.String("run", "", "plant only the mutants whose names match this `regexp`")
	list := flag.Bool("list", false, "print the mutants and what they break, and do nothing")
	parallel := flag.Int("p", 2, "how many mutants are tried at a time")
	timeout := flag.Duration("timeout", time.Minute, "how long a test, or with -find a package, may take")
	find := flag.String("find", "", "run the tests that match this `regexp`, and print those that fail: for a new mutant")
	flag.Parse()
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	chosen := choose(all(), match)
	switch {
	case len(chosen) == 0:
		return fmt.Errorf("no mutant's name matches %q; -list prints them", *pattern)
	case *list:
		printList(chosen)
		return nil
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	r := &runner{root: root, parallel: max(*parallel, 1), timeout: *timeout, find: *find, out: os.Stdout}
	if r.self, err = executable(); err != nil {
		return err
	}
	if r.ordinary, err = ordinaryCache(ctx); err != nil {
		return err
	}
	if r.tmp, err = os.MkdirTemp("", "larder-mutants-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.tmp)
	begun := time.Now()
	if r.find == "" {
		if err := r.baseline(ctx, chosen); err != nil {
			return err
		}
	}
	left := r.run(ctx, chosen)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	fmt.Printf("%d of %d mutants caught in %v\n", len(chosen)-left, len(chosen), time.Since(begun).Round(time.Second))
	if left > 0 {
		return fmt.Errorf("%d not caught: see above, and doc.go for what each outcome means", left)
	}
	return nil
}

func choose(from []mutant, match *regexp.Regexp) (chosen []mutant) {
	for _, m := range from {
		if match.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

func printList(ms []mutant) {
	for _, m := range ms {
		fmt.Printf("%s\n\tbreaks     %s\n\tin         %s\n", m.name, m.breaks, m.file)
		fmt.Printf("\tcaught by  %s in %s\n", m.test, m.testDir())
	}
	fmt.Printf("%d mutants\n", len(ms))
}

// findRoot returns the repository's root: the nearest parent directory with test/mutants.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "mutants", "mutant.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run it in the repository: there is no test/mutants here or above")
		}
	}
}
