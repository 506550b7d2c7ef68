//go:build amd64 || arm64

package powerloss

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recorder traces the file operations of processes below a directory. The processes run one after the other.
type Recorder struct{ files *files }

// NewRecorder returns a Recorder for root, which must be an empty directory without symbolic links in its path.
func NewRecorder(root string) (*Recorder, error) {
	at, err := inodeOf(root)
	if err != nil {
		return nil, err
	}
	return &Recorder{&files{
		root: root, names: map[string]int{".": Root}, numbers: map[inode]int{at: Root}, dirs: map[int]bool{Root: true},
		last: Root,
	}}, nil
}

func (r *Recorder) Record() []Op { return r.files.record }

// Run runs a program until the program exits or is killed at its own request (Marker.DieAtSync). The program shares
// standard output and error with the current process. Run fails if the program fails, if the program makes a call that
// the Recorder does not know, or if ptrace is not permitted.
func (r *Recorder) Run(argv, env []string) error {
	// Only the thread that starts a process may trace the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	marks, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = marks.Close() }()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Env: env, Files: []*os.File{nil, os.Stdout, os.Stderr, marks}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return fmt.Errorf("trace %s: %w (a container may need the capability SYS_PTRACE)", argv[0], err)
	}
	r.files.syncsLeft = 0
	t := &tracer{pid: p.Pid, files: r.files, calls: map[int]call{}}
	if err = t.run(); err == nil {
		return p.Release()
	}
	if ended := end(p); ended != nil || !errors.Is(err, errDie) {
		return fmt.Errorf("trace %s: %w", argv[0], errors.Join(err, ended))
	}
	return nil
}

// errDie: the traced process has asked to be killed now (DieAtSync).
var errDie = errors.New("the process wants to be killed")

func end(p *os.Process) error {
	_ = p.Kill() // an error means that the process has already ended
	for {
		tid, status, err := wait()
		if errors.Is(err, unix.ECHILD) || tid == p.Pid && (status.Exited() || status.Signaled()) {
			return p.Release()
		}
		if err != nil {
			return err
		}
	}
}

type tracer struct {
	pid   int
	files *files
	// calls are the system calls in progress, by thread id.
	calls map[int]call
}

const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK |
	unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_EXITKILL

func (t *tracer) run() error {
	known := map[int]bool{}
	for {
		tid, status, err := wait()
		if err != nil {
			return err
		}
		if status.Exited() || status.Signaled() {
			if tid != t.pid {
				continue // a thread has ended, but not the process
			}
			if status.Signaled() || status.ExitStatus() != 0 {
				return fmt.Errorf("it ended with status %#x; see what it has written", uint32(status))
			}
			return nil
		}
		signal, first := status.StopSignal(), !known[tid]
		known[tid] = true
		deliver := 0
		switch {
		case first && tid == t.pid: // the process has not executed anything yet
			err = unix.PtraceSetOptions(tid, traceOptions)
		case first && signal == unix.SIGSTOP: // the first stop of a new thread
		case signal == unix.SIGTRAP|0x80:
			err = t.stopped(tid)
		case signal == unix.SIGTRAP && status.TrapCause() > 0: // the parent of a new thread also stops
		default:
			deliver = int(signal)
		}
		if err != nil {
			return err
		}
		if err := unix.PtraceSyscall(tid, deliver); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("go on with a thread: %w", err)
		}
	}
}

// wait waits for a thread that the calling thread traces, and not for other children of the process.
func wait() (tid int, status unix.WaitStatus, err error) {
	for {
		tid, err = unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if !errors.Is(err, unix.EINTR) {
			return tid, status, err
		}
	}
}

func (t *tracer) stopped(tid int) error {
	info, err := callInfo(tid)
	if errors.Is(err, unix.ESRCH) {
		return nil // the process has ended meanwhile
	}
	if err != nil {
		return fmt.Errorf("ask which system call it is: %w", err)
	}
	switch info.op {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		c := call{tid: tid, args: [6]uint64(info.words[1:]), since: len(t.files.record)}
		recorded, err := t.files.enter(info.words[0], &c)
		if err != nil {
			return err
		}
		if recorded {
			t.calls[tid] = c
		}
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		c, ok := t.calls[tid]
		delete(t.calls, tid)
		c.result = int64(info.words[0])
		if ok && c.result >= 0 {
			return c.do(t.files, c)
		}
	}
	return nil
}

// syscallInfo is struct ptrace_syscall_info of linux/ptrace.h. words has the call's number and arguments when the call
// begins, and the result when it ends.
type syscallInfo struct {
	op    uint8
	_     [3]uint8
	arch  uint32
	ip    uint64
	sp    uint64
	words [8]uint64
}

func callInfo(tid int) (info syscallInfo, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}
