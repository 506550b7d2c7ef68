// Command bench compares Larder with client-go's informer, and reports which of its goals Larder reaches.
//
//	go -C bench run . -quick     10,000 pods: less than 15 minutes, once the server's programs are built
//	go -C bench run .            100,000 pods and more: hours, 16 GB of memory
//	go -C bench run . -help      the flags
//
// -only runs some of the scenarios, and -into adds their results to an earlier result file, so a benchmark can run in
// parts. -profile writes profiles, and -render prints an earlier result file with the current goals. -starts,
// -programs, -serve (also with -hostile), -seeds and -sizes run other measurements instead, and print tables.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/larder-dev/larder/bench/internal/larder"
	"github.com/larder-dev/larder/bench/internal/runner"
	"github.com/larder-dev/larder/bench/internal/seeded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == runner.ChildArgument:
		err = runner.Child(ctx, os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == seeded.ChildArgument:
		err = seeded.Child(ctx, os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == larder.Argument:
		os.Exit(larder.Main(ctx, os.Args[2:]))
	default:
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
