package base

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func TestHoldersOf(t *testing.T) {
	if runtime.GOOS != "linux" {
		if got := HoldersOf(os.Args[0]); len(got) > 0 {
			t.Errorf("got %v without /proc", got)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "s.larder")
	mine, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if !OpenHere(path) {
		t.Error("this process has it open")
	}
	if got := HoldersOf(path); len(got) > 0 {
		t.Errorf("got %v, and nobody else has it open", got)
	}
	other := exec.Command("sh", "-c", "echo ready; read line")
	other.ExtraFiles = []*os.File{mine}
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	got := HoldersOf(path)
	if len(got) != 1 || got[0].PID != other.Process.Pid || got[0].Name != "sh" {
		t.Errorf("got %v, want process %d (sh)", got, other.Process.Pid)
	}
	_ = in.Close()
	_ = other.Wait() // ignored: the other process fails, as expected, at the end of its input
	_ = mine.Close()
	if OpenHere(path) {
		t.Error("this process has closed it")
	}
	if got := HoldersOf(filepath.Join(filepath.Dir(path), "none")); got != nil {
		t.Errorf("got %v of a file that is not there", got)
	}
}
