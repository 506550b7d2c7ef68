package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// sampleEvery is how often Sampler looks: a decoded page of a list lives longer than that.
const sampleEvery = 10 * time.Millisecond

// Memory is resident memory, in bytes.
type Memory struct {
	// Anon belongs to the process alone: heap and stacks.
	Anon int64
	// File is mapped from files: the kernel can take it back at any time.
	File int64
}

// Sampler keeps the peaks of this process's memory. Stop it.
type Sampler struct {
	stop chan struct{}
	done chan struct{}

	mu   sync.Mutex // guards peak
	peak Memory
}

// StartSampler samples from now on.
func StartSampler() (*Sampler, error) {
	if _, err := ownMemory(); err != nil {
		return nil, err
	}
	s := &Sampler{stop: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s, nil
}

func (s *Sampler) run() {
	defer close(s.done)
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		s.sample()
		select {
		case <-ticker.C:
		case <-s.stop:
			return
		}
	}
}

func (s *Sampler) sample() {
	m, err := ownMemory()
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak = Memory{Anon: max(s.peak.Anon, m.Anon), File: max(s.peak.File, m.File)}
}

// Peak returns the highest values so far, this moment's included.
func (s *Sampler) Peak() Memory {
	s.sample()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Stop ends the sampling and waits for it.
func (s *Sampler) Stop() {
	close(s.stop)
	<-s.done
}

func ownMemory() (Memory, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Memory{}, fmt.Errorf("memory is read from /proc, so the benchmarks need Linux: %w", err)
	}
	anon, err := field(status, "RssAnon:")
	if err != nil {
		return Memory{}, err
	}
	file, err := field(status, "RssFile:")
	return Memory{Anon: anon << 10, File: file << 10}, err
}

// field returns the number behind a name that begins a line.
func field(text []byte, name string) (int64, error) {
	for line := range bytes.Lines(text) {
		value, found := bytes.CutPrefix(line, []byte(name))
		if !found {
			continue
		}
		fields := bytes.Fields(value)
		if len(fields) == 0 {
			break
		}
		return strconv.ParseInt(string(fields[0]), 10, 64)
	}
	return 0, fmt.Errorf("/proc has no %s", name)
}
