package scenario

import (
	"context"
	"testing"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
)

func TestContinueOf(t *testing.T) {
	const n = 5000 // more than two pages
	server, err := cluster.StartEmbedded(n)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() //nolint:errcheck // the test does not depend on it
	pods := load.KindOf("pods")
	if err := server.Load(context.Background(), pods, n); err != nil {
		t.Fatal(err)
	}
	for _, dynamic := range []bool{false, true} {
		b := &Bench{Case: Case{Access: server.Access(), N: n, Subject: subject.Spec{Dynamic: dynamic}}, Kind: pods}
		result, err := rawList(t.Context(), b)
		if err != nil || result["pages"] != 3 {
			t.Errorf("dynamic %t: %v, %v", dynamic, result, err)
		}
	}
}
