package proc

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// sampleEvery is the interval of Sampler, shorter than the life of a decoded page of a list.
const sampleEvery = 10 * time.Millisecond

// Memory is resident memory, in bytes.
type Memory struct {
	// Anon is private memory of the process: heap and stacks.
	Anon int64
	// File is mapped from files. The kernel can reclaim this memory at any time.
	File int64
}

// Sampler finds the peaks of this process's memory. The caller must stop it.
type Sampler struct {
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex // mu guards peak
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

// Peak returns the highest values so far, including the current values.
func (s *Sampler) Peak() Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, err := ownMemory(); err == nil {
		s.peak = Memory{Anon: max(s.peak.Anon, m.Anon), File: max(s.peak.File, m.File)}
	}
	return s.peak
}

// Stop stops the sampler and waits for its goroutine.
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

// WrittenBytes returns the number of bytes that this process has caused to be written to disks.
func WrittenBytes() (int64, error) { return Written(os.Getpid()) }

// Written is WrittenBytes of another process. Writes to files in a memory file system do not count.
func Written(pid int) (int64, error) { return field(pid, "io", "write_bytes") }

// Anon returns the anonymous resident memory of another process, in bytes.
func Anon(pid int) (int64, error) {
	kB, err := field(pid, "status", "RssAnon")
	return kB << 10, err
}

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

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 on every architecture of Go.
const tick = time.Second / 100

// CPU returns the processor time of a process, in user space and in the kernel, in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat adds utime and stime, the 14th and 15th fields. The second field is the program's name in parentheses. The
// name may contain spaces and parentheses.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/<pid>/stat is not what it should be: %q", text)
	}
	var user, system time.Duration
	_, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	return (user + system) * tick, err
}
