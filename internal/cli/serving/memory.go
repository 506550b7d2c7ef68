package serving

import (
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/larder-dev/larder/serve/access"
)

const (
	// baseMemory is the memory, in bytes, that a sync needs without clients, and connectionMemory the memory for each
	// client connection.
	baseMemory       = 64 << 20
	connectionMemory = 80 << 10
)

// limitMemory sets the soft memory limit of the Go runtime. The limit is the sum of the budget for responses, the
// connections and the process itself, or nine tenths of the container's limit if that is less. GOMEMLIMIT in the
// environment takes precedence.
func limitMemory(budget int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := baseMemory + budget + int64(access.Limits{}.WithDefaults().Connections)*connectionMemory
	if container := CgroupLimit("/"); container > 0 {
		limit = min(limit, container/10*9)
	}
	debug.SetMemoryLimit(limit)
}

// CgroupLimit returns the memory limit in bytes of this process's control groups (cgroups), version 1 or 2; 0 without a
// limit. root is the directory that contains proc and sys, "/" except in tests.
func CgroupLimit(root string) (limit int64) {
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0 // there is no proc/self/cgroup on systems other than Linux
	}
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // a line such as 0::/system.slice/larder.service
		if len(part) != 3 {
			continue
		}
		at, file := "sys/fs/cgroup", "memory.max"
		switch part[1] {
		case "":
		case "memory":
			at, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// The lowest limit counts, because a parent's limit applies to its children, too.
		for group := path.Clean("/" + part[2]); ; group = path.Dir(group) {
			text, err := os.ReadFile(filepath.Join(root, at, group, file))
			n, notNumber := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && notNumber == nil && n > 0 && n < 1<<60 && (limit == 0 || n < limit) {
				limit = n
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}
