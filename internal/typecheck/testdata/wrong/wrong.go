// Package wrong does not compile on every system.
package wrong

import "example.com/wrong/dep"

// Bits do not fit into an int of 32 bits.
func Bits() int { return 1 << 40 }

// Home is not there on windows.
func Home() string { return home() + dep.Name }
