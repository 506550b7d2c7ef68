package store_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/larder-dev/larder/store"
)

// childFileSizeLimit fills a store until it reaches RLIMIT_FSIZE, lifts the limit and continues to write.
func childFileSizeLimit(path string) error {
	// By default SIGXFSZ ends a process that reaches the limit on file sizes.
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	low := old
	low.Cur = 10 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low); err != nil {
		return err
	}
	s, err := store.Open(path, store.Options{Logger: &quiet})
	if err != nil {
		return err
	}
	n, err := fillFile(s, 0)
	for range 3 {
		if !errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrOutcomeUnknown) || s.Err() != nil {
			return fmt.Errorf("after %d keys: %w; Err: %w", n, err, s.Err())
		}
		fmt.Fprintln(os.Stderr, err)
		if all, err := readAll(s); err != nil || len(all) != n {
			return fmt.Errorf("%d keys of %d: %w", len(all), n, err)
		}
		_, err = fillFile(s, n)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	for i := range 100 {
		if err := put(s, make([]byte, 100_000), fmt.Sprintf("after-%d", i)); err != nil {
			return fmt.Errorf("with room again: %w", err)
		}
	}
	all, err := readAll(s)
	if err != nil || len(all) != n+100 {
		return fmt.Errorf("%d keys of %d: %w", len(all), n+100, err)
	}
	return s.Close()
}
