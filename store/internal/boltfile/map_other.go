//go:build !unix || !(amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package boltfile

// mapSize returns 0, which leaves the choice to bbolt. Address space is scarce on 32-bit systems, and on Windows the
// file grows to the size of its mapping.
func mapSize(int64) int { return 0 }
