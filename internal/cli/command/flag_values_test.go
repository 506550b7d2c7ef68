package command

import (
	"testing"
	"time"
)

// TestSpan checks that AgeValue parses the output of Span and prints it again.
func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1s", time.Minute: "1m", 90 * time.Minute: "1h30m", 24 * time.Hour: "24h", 48 * time.Hour: "2d",
		30 * 24 * time.Hour: "30d",
		49 * time.Hour:      "49h", time.Hour + time.Second: "1h0m1s", 10 * time.Minute: "10m", 100 * time.Hour: "100h",
	} {
		var back AgeValue
		if got := Span(d); got != want || back.Set(got) != nil || time.Duration(back) != d || back.String() != want {
			t.Errorf("%v: got %s, and back %v; want %s", d, got, time.Duration(back), want)
		}
	}
}

func TestAgeValue(t *testing.T) {
	for s, want := range map[string]time.Duration{"never": 0, "0": 0, "7d": 7 * 24 * time.Hour, "36h": 36 * time.Hour} {
		v := AgeValue(1)
		if err := v.Set(s); err != nil || time.Duration(v) != want {
			t.Errorf("%s: got %v, %v", s, time.Duration(v), err)
		}
	}
}
