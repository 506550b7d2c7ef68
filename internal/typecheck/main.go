// Command typecheck type-checks all packages of a module, their tests and all that they import, from source, for systems
// other than this one:
//
//	go run ./internal/typecheck DIRECTORY GOOS/GOARCH…
//
// It finds what a compiler's front end finds: what a system has not, constants that 32 bits can not hold, a file that the build
// constraints leave out. It generates no code, so it takes seconds where cold cross builds take minutes. It does not find what code
// generation, assembly and linking would. cgo is off.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
}

// run checks the module in args[0] for the platforms after it, and writes what is wrong to out, a line each.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: typecheck DIRECTORY GOOS/GOARCH…, got %q", args)
	}
	found := 0
	for _, name := range args[1:] {
		goos, goarch, ok := strings.Cut(name, "/")
		if !ok {
			return fmt.Errorf("%q is not of the form GOOS/GOARCH", name)
		}
		packages, err := list(ctx, args[0], goos, goarch)
		if err != nil {
			return fmt.Errorf("list the packages in %s for %s: %w", args[0], name, err)
		}
		problems, err := check(packages, goarch)
		if err != nil {
			return fmt.Errorf("check %s for %s: %w", args[0], name, err)
		}
		for _, p := range problems {
			fmt.Fprintf(out, "%s: %s\n", name, p)
		}
		found += len(problems)
	}
	if found > 0 {
		return fmt.Errorf("%d errors in %s", found, args[0])
	}
	return nil
}
