package serving_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/internal/cli/serving"
)

// TestCgroupLimit checks that the lowest memory limit among the process's control groups is found, in versions 1 and 2,
// and also inside a container, where the path of the group does not exist.
func TestCgroupLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":          {nil, 0},
		"unlimited":     {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"in a unit":     {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n"}, 1000},
		"above":         {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/memory.max": "500\n"}, 500},
		"in a pod":      {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"version 1":     {map[string]string{"proc/self/cgroup": "4:memory:/kubepods/x\n1:cpu:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000\n"}, 2000},
		"v1, unlimited": {map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
	} {
		root := t.TempDir()
		for path, text := range tt.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := serving.CgroupLimit(root); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
