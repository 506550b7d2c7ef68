package proc

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// sampleEvery is the interval of Sampler: a decoded page of a list lives longer.
const sampleEvery = 10 * time.Millisecond

// Memory is resident memory, in bytes.
type Memory struct {
	// Anon belongs to the process alone: heap and stacks.
	Anon int64
	// File is mapped from files: the kernel can take it back at any time.
	File int64
}

// Sampler keeps the peaks of this process's memory. The caller must stop it.
type Sampler struct {
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex // guards peak
	peak Memory
}

// StartSampler starts a Sampler.
func StartSampler() (*Sampler, error) {
	if _, err := ownMemory(); err != nil {
		return nil, err
	}
	s := &Sampler{stop: make(chan struct{})}
	s.done.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			s.Peak()
			select {
			case <-ticker.C:
			case <-s.stop:
				return
			}
		}
	})
	return s, nil
}

// Peak returns the highest values so far, the current ones included.
func (s *Sampler) Peak() Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, err := ownMemory(); err == nil {
		s.peak = Memory{Anon: max(s.peak.Anon, m.Anon), File: max(s.peak.File, m.File)}
	}
	return s.peak
}

// Stop ends the sampling and waits for it.
func (s *Sampler) Stop() {
	close(s.stop)
	s.done.Wait()
}

func ownMemory() (Memory, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return Memory{}, fmt.Errorf("memory is read from /proc, so the benchmarks need Linux: %w", err)
	}
	var size, resident, shared int64
	_, err = fmt.Sscan(string(text), &size, &resident, &shared)
	page := int64(os.Getpagesize())
	return Memory{Anon: (resident - shared) * page, File: shared * page}, err
}

// WrittenBytes returns how many bytes this process has caused to be written to disks since it started.
func WrittenBytes() (int64, error) { return Written(os.Getpid()) }

// Written is WrittenBytes of another process: 0 if its files are on a file system in memory.
func Written(pid int) (int64, error) { return field(pid, "io", "write_bytes") }

// Anon returns the resident memory of another process that is not of files, in bytes.
func Anon(pid int) (int64, error) {
	kB, err := field(pid, "status", "RssAnon")
	return kB << 10, err
}

// field returns a number from a file of a process.
func field(pid int, file, name string) (n int64, err error) {
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(string(text), "\n"+name+":")
	if !found {
		return 0, fmt.Errorf("%s has no %s", path, name)
	}
	_, err = fmt.Sscan(value, &n)
	return n, err
}

// tick is the unit of /proc/<pid>/stat: USER_HZ is 100 on every architecture that Go supports.
const tick = time.Second / 100

// CPU returns the processor time that a process has used, in user space and in the kernel, in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat adds up utime and stime, the 14th and 15th field. The second is the name of the program in parentheses,
// which may hold both.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/<pid>/stat is not what it should be: %q", text)
	}
	var user, system time.Duration
	_, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	return (user + system) * tick, err
}
