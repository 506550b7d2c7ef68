package progress

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type terminal struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Write(p)
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.String()
}

func TestBusy(t *testing.T) {
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		var out terminal
		end := Busy(&out, true, "checking")
		time.Sleep(showAfter - redrawAfter/2)
		synctest.Wait()
		if out.String() != "" {
			t.Errorf("shown within a second: %q", out.String())
		}
		time.Sleep(5*time.Second + redrawAfter/4)
		synctest.Wait()
		if got := line(out.String()); !strings.Contains(got, "checking") || !strings.Contains(got, "s]") ||
			strings.Contains(got, "5/") {
			t.Errorf("shown is %q", got)
		}
		end()
		end()
		if got := line(out.String()); got != "" {
			t.Errorf("%q is left", got)
		}
		Busy(&out, false, "checking")()
	})
}
