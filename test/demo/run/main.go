// Command run runs the demo on an API server in this process: make demo.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/larder-dev/larder/test/demo"
)

func main() {
	pods := flag.Int("pods", 0, "`number` of pods; at least 20, and 5000 by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *pods); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, pods int) error {
	cluster, err := demo.StartEmbedded()
	if err != nil {
		return err
	}
	defer cluster.Close()
	_, err = demo.Run(ctx, cluster, demo.Options{Pods: pods, Out: os.Stdout})
	return err
}
