package powerloss

import "golang.org/x/sys/unix"

// oldKinds are system calls that newer architectures do not have. Go does not use them.
var oldKinds = map[uint64]syscallKind{
	unix.SYS_OPEN:    {name: "open", paths: []int{0, 1}},
	unix.SYS_CREAT:   {name: "creat", paths: []int{0, 1}},
	unix.SYS_MKDIR:   {name: "mkdir", paths: []int{0, 1}},
	unix.SYS_MKNOD:   {name: "mknod", paths: []int{0, 1}},
	unix.SYS_RMDIR:   {name: "rmdir", paths: []int{0, 1}},
	unix.SYS_UNLINK:  {name: "unlink", paths: []int{0, 1}},
	unix.SYS_LINK:    {name: "link", paths: []int{0, 1, 0, 2}},
	unix.SYS_RENAME:  {name: "rename", paths: []int{0, 1, 0, 2}},
	unix.SYS_SYMLINK: {name: "symlink", paths: []int{0, 2}},
}
