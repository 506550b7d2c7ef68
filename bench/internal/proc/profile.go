package proc

import (
	"errors"
	"os"
	"runtime/pprof"
)

// Profile runs a function and writes a CPU profile and a heap profile, <name>.cpu.pprof and <name>.heap.pprof. It
// replaces existing files.
func Profile(name string, run func() error) (err error) {
	cpu, err := os.Create(name + ".cpu.pprof")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	heap, err := os.Create(name + ".heap.pprof")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, heap.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, pprof.WriteHeapProfile(heap))
}
