//go:build !linux

package store

import "errors"

func childFileSizeLimit(string) error { return errors.New("for Linux only") }
