package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ticksPerSecond is the unit of /proc/<pid>/stat: USER_HZ, which is 100 on every architecture that Go supports.
const ticksPerSecond = 100

// WrittenBytes returns how many bytes this process has caused to be written to disks since it started.
func WrittenBytes() (int64, error) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	return field(text, "write_bytes:")
}

// CPU returns the processor time that a process has used, in user space and in the kernel, in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(text)
}

// parseStat adds up utime and stime, the 14th and 15th field. The second is the name of the program in parentheses, which may hold both.
func parseStat(text []byte) (time.Duration, error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/<pid>/stat is not what it should be: %q", text)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
