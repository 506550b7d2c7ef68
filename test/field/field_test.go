package field

import (
	"testing"

	"github.com/larder-dev/larder/internal/fakeapi"
)

type fake struct{ *fakeapi.Server }

func (f fake) LoseHistory(*testing.T) { f.Compact() }

func startFake(t *testing.T) fake {
	t.Helper()
	f := fake{fakeapi.New(fakeapi.Options{})}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return f
}

func TestReports(t *testing.T) {
	for report, try := range Reports() {
		t.Run(report, func(t *testing.T) { try(NewWorld(t, startFake(t))) })
	}
}

func TestReportsOfServers(t *testing.T) {
	for report, try := range ReportsOfServers() {
		t.Run(report, func(t *testing.T) { try(NewWorld(t, startFake(t))) })
	}
}
