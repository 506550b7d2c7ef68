package source

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/store"
)

func TestOpenOrDial(t *testing.T) {
	locked := fmt.Errorf("file: %w", store.ErrLocked)
	refused, damaged := errors.New("refused"), errors.New("damaged")
	file, sock := Source(&fakeSource{}), Source(&fakeSource{})
	for _, tc := range []struct {
		name string
		// The durations are when the store's file can be opened and when its socket answers; negative means never.
		file, sock time.Duration
		fileErr    error
		want       Source
		wantDial   bool
		wantErr    error
	}{
		{"the file is free", 0, 0, locked, file, false, nil},
		{"held by a sync", -1, 0, locked, sock, false, nil},
		{"the sync is starting", -1, time.Second, locked, sock, false, nil},
		{"the sync is stopping", time.Second, -1, locked, file, false, nil},
		{"held by another program", -1, -1, locked, nil, true, nil},
		{"damaged", -1, 0, damaged, nil, false, damaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				try := func(after time.Duration, src Source, err error) func() (Source, error) {
					return func() (Source, error) {
						if after < 0 || time.Since(start) < after {
							return nil, err
						}
						return src, nil
					}
				}
				src, dialErr, err := openOrDial(context.Background(), 2*time.Second, nil, try(tc.file, file, tc.fileErr),
					try(tc.sock, sock, refused))
				if src != tc.want || (dialErr != nil) != tc.wantDial || !errors.Is(err, tc.wantErr) {
					t.Errorf("got %v, %v, %v", src, dialErr, err)
				}
			})
		})
	}
}

func TestOpenOrDialStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, _, err := openOrDial(ctx, time.Hour, nil,
		func() (Source, error) { return nil, store.ErrLocked },
		func() (Source, error) { cancel(); return nil, errors.New("refused") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestHeldErrorIsLocked(t *testing.T) {
	if err := (&HeldError{Err: errors.New("x")}); !errors.Is(err, store.ErrLocked) {
		t.Error(err)
	}
}
