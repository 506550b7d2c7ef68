package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBusy(t *testing.T) {
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		end := Busy(&out, true, "checking")
		time.Sleep(showAfter - redrawAfter/2)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("shown within a second: %q", out.String())
		}
		time.Sleep(5*time.Second + redrawAfter/4)
		synctest.Wait()
		if got := line(out.String()); !strings.Contains(got, "checking") || !strings.Contains(got, "s]") || strings.Contains(got, "5/") {
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
