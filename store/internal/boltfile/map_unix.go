//go:build unix && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package boltfile

// mapSize returns the size of the address space to map for a file of the given size. To enlarge a mapping, bbolt waits
// for every reader and blocks new readers. A mapping beyond the end of the file costs only address space.
func mapSize(size int64) int { return int(max(4<<30, 2*size)) }
