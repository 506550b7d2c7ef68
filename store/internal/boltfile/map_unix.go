//go:build unix && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package boltfile

// MapSize is how much address space to map for a file of the given size. A
// mapping that must grow waits for every reader and holds up the new ones; one
// beyond the end of the file costs nothing but address space.
func MapSize(size int64) int { return int(max(4<<30, 2*size)) }
