package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// profiled writes profiles of the processor and of what was allocated, as <scenario>-<kind>-<n>-<subject>.cpu.pprof and
// .heap.pprof. Those of a later run replace them.
func profiled(c scenario.Case, run func() (scenario.Result, error)) (_ scenario.Result, err error) {
	name := fmt.Sprintf("%s-%s-%d-%s", c.Scenario, c.Kind, c.N, strings.ReplaceAll(c.Subject.String(), " ", "-"))
	cpu, err := os.Create(filepath.Join(c.Profile, name+".cpu.pprof"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	heap, err := os.Create(filepath.Join(c.Profile, name+".heap.pprof"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, heap.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	result, runErr := run()
	pprof.StopCPUProfile()
	return result, errors.Join(runErr, pprof.WriteHeapProfile(heap))
}
