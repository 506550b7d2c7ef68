package proc

import (
	"os"
	"testing"
)

func TestOwnProcess(t *testing.T) {
	s, err := StartSampler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if peak := s.Peak(); peak.Anon == 0 || peak.File == 0 {
		t.Errorf("peak %+v", peak)
	}
	if _, err := WrittenBytes(); err != nil {
		t.Error(err)
	}
	if _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
}
