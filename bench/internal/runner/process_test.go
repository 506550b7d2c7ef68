package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// TestMain is also the program that runProcess starts. Then it reports that it is ready for changes, and hangs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildArgument {
		fmt.Println(`{"ready":true}`)
		time.Sleep(caseTimeout)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestDriverFails(t *testing.T) {
	failed := errors.New("the server has gone")
	_, err := runProcess(t.Context(), scenario.Case{}, func(func() error) error { return failed })
	if !errors.Is(err, failed) {
		t.Error(err)
	}
}

func TestCaseHangs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if result, err := runProcess(ctx, scenario.Case{}, func(proceed func() error) error { return proceed() }); err == nil {
		t.Errorf("%v, from a case that hangs", result)
	}
}
