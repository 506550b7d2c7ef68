package proc

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("7 (a (strange) name) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 12345 0 0")
	if err != nil || got != 3*time.Second {
		t.Errorf("%v, %v, want 3s", got, err)
	}
	if _, err := parseStat("nonsense"); err == nil {
		t.Error("nonsense was read")
	}
}
