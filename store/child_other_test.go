//go:build !linux

package store_test

import "errors"

func childFileSizeLimit(string) error { return errors.New("for Linux only") }

func childAddressSpaceLimit(string) error { return errors.New("for Linux only") }
