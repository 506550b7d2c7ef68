// Command build provides kube-apiserver, kubectl and etcd at the versions in test/cluster/go.mod, and prints their
// directory. The first run compiles them, which takes minutes. Later runs find them in the user's cache directory.
//
//	go run -C test/cluster ./cmd/build
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

func run(ctx context.Context) (string, error) {
	v, err := readVersions()
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for the programs (set HOME or XDG_CACHE_HOME): %w", err)
	}
	c := cache{root: cacheRoot(base), name: v.dirName()}
	if c.complete() {
		return c.dir(), nil
	}
	unlock, err := c.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if c.complete() { // another process built them meanwhile
		return c.dir(), nil
	}
	return c.dir(), c.fill(func(tmp string) error {
		start := time.Now()
		for _, p := range v.programs() {
			if err := compile(ctx, p, tmp); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "cluster: built in %s\n", time.Since(start).Round(time.Second))
		return nil
	})
}
