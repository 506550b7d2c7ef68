// Command typecheck type-checks all packages of modules, their tests and all that they import, from source, for systems
// other than this one:
//
//	go run ./internal/typecheck GOOS/GOARCH,… DIRECTORY…
//
// It finds what a compiler's front end finds: what a system has not, constants that 32 bits can not hold, a file that the build
// constraints leave out. It generates no code, so it takes seconds where cold cross builds take minutes. It does not find what code
// generation, assembly and linking would. cgo is off.
//
// What it found right is recorded in larder/typecheck in the user's cache directory, by content, and not checked again there.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cache, err := os.UserCacheDir()
	if err == nil {
		err = run(ctx, filepath.Join(cache, "larder", "typecheck"), os.Args[1:], os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
}

// run checks the modules in args[1:] for the platforms in args[0], and writes what is wrong to out, a line each. What is right it
// records in the directory cache.
func run(ctx context.Context, cache string, args []string, out io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: typecheck GOOS/GOARCH,… DIRECTORY…, got %q", args)
	}
	platforms, err := parsePlatforms(args[0])
	if err != nil {
		return err
	}
	program, err := ownIdentity()
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	record, err := openRecord(cache)
	if err != nil {
		return fmt.Errorf("read the record of earlier runs: %w; remove %s", err, cache)
	}
	found, right, files := 0, []string{}, newSources()
	for _, on := range platforms {
		c, err := newChecker(files, on, program, record.right)
		if err != nil {
			return err
		}
		if err := c.addAll(ctx, args[1:]); err != nil {
			return err
		}
		problems, identities := c.check()
		for _, p := range problems {
			fmt.Fprintf(out, "%s: %s\n", on, p)
		}
		found += len(problems)
		right = append(right, identities...)
	}
	if found > 0 {
		return fmt.Errorf("%d errors in %q", found, args[1:])
	}
	if err := record.save(right); err != nil {
		return fmt.Errorf("record what is right: %w", err)
	}
	return nil
}

// addAll adds the modules in the directories.
func (c *checker) addAll(ctx context.Context, dirs []string) error {
	for _, dir := range dirs {
		packages, err := list(ctx, dir, c.on)
		if err != nil {
			return fmt.Errorf("list the packages in %s for %s: %w", dir, c.on, err)
		}
		if err := c.add(packages); err != nil {
			return fmt.Errorf("check %s for %s: %w", dir, c.on, err)
		}
	}
	return nil
}
