// Command event sends one event through an informer, and leaves the counters of what ran, from the change at the server
// to the handler's call, in a directory. It has to be built with -cover -covermode=atomic; make size does.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/coverage"
	"sync/atomic"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/test/size/world"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "event:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	var cleared atomic.Bool
	files, err := os.MkdirTemp("", "larder-event-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	w, err := world.New(files, func(what string) {
		if cleared.Load() && what == world.Handler {
			if err := coverage.WriteCountersDir(dir); err != nil {
				fmt.Fprintln(os.Stderr, "event:", err)
			}
		}
	})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	return w.Run(ctx, func(ctx context.Context, st *store.Store) error {
		if err := st.Flush(ctx); err != nil {
			return err
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		cleared.Store(true)
		if err := w.Change(ctx); err != nil {
			return err
		}
		<-w.Told
		return nil
	})
}
