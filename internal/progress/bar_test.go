package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func line(out string) string {
	var cells []rune
	at := 0
	for _, r := range out {
		if r == '\r' {
			at = 0
			continue
		}
		if at == len(cells) {
			cells = append(cells, r)
		} else {
			cells[at] = r
		}
		at++
	}
	return strings.TrimRight(string(cells), " ")
}

func TestBar(t *testing.T) {
	t.Setenv("TERM", "xterm")
	synctest.Test(t, func(t *testing.T) {
		for _, total := range []int64{100, 0} {
			var out bytes.Buffer
			b := Start(&out, true, "checking", total)
			b.Add(10)
			time.Sleep(showAfter - 1)
			b.Add(10)
			if out.Len() > 0 {
				t.Errorf("shown within a second: %q", out.String())
			}
			for range 200 { // more steps than the total
				time.Sleep(redrawAfter)
				b.Add(1)
			}
			got := line(out.String())
			if !strings.Contains(got, "checking") {
				t.Errorf("shown is %q", got)
			}
			if want := map[int64]string{100: "99/100", 0: "220"}[total]; !strings.Contains(got, want) {
				t.Errorf("shown is %q, want %s in it", got, want)
			}
			if strings.ContainsAny(out.String(), "\x1b\n") {
				t.Errorf("escape sequences or lines: %q", out.String())
			}
			b.Done()
			if got := line(out.String()); got != "" || !strings.HasSuffix(out.String(), "\r") {
				t.Errorf("%q is left", got)
			}
			n := out.Len()
			b.Add(1)
			b.Done()
			if out.Len() != n {
				t.Error("written after the end")
			}
		}
	})
}

func TestNoTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	if Start(nil, false, "x", 1) != nil {
		t.Error("shown where there is no terminal")
	}
	t.Setenv("TERM", "dumb")
	b := Start(nil, true, "x", 1)
	if b != nil {
		t.Error("shown on a dumb terminal")
	}
	b.Add(1)
	b.Done()
}
