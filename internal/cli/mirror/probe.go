package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/internal/source"
)

// othersTimeout limits the wait for each further response once the server has answered for one resource. A resource
// whose list hangs must not delay the others.
const othersTimeout = time.Second

// answered is the server's answer to the check of the planned resource with index n.
type answered struct {
	n   int
	err error
}

// probeAll asks the server to list each planned collection for which accepted returns false, several at a time. It
// returns an error for each collection that the server refuses. It waits cluster.DiscoveryTimeout for the first
// response, and othersTimeout for each further response.
func probeAll(ctx context.Context, plan []planned, accepted func(planned) bool) []error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithTimeout(ctx, cluster.DiscoveryTimeout)
	defer cancel()
	slots := limiter.New()
	answers := make(chan answered, len(plan))
	waits := 0
	for n, p := range plan {
		if accepted(p) {
			continue
		}
		waits++
		wg.Go(func() {
			slot, err := slots.Connect(ctx, false, func(error) {})
			if err != nil {
				return
			}
			defer slot.Done()
			defer slot.Await()()
			if err = p.ask(ctx); ctx.Err() == nil {
				answers <- answered{n, err}
			}
		})
	}
	errs := make([]error, len(plan))
	var last <-chan time.Time
	for ; waits > 0; waits-- {
		select {
		case a := <-answers:
			errs[a.n], last = a.err, time.After(othersTimeout)
		case <-last:
			return errs
		case <-ctx.Done():
			return errs
		}
	}
	return errs
}

// ask lists one object of the collection. It returns only permanent errors, because the informer would retry for ever.
// It ignores other errors, such as a timeout, because the informer's retry may succeed.
func (p planned) ask(ctx context.Context) error {
	_, err := p.conn.ListWatch(p.identity).ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	what := p.resource.String()
	if sc := input.Scope(source.NewCollection(entry.Info{Identity: p.identity})); sc != "all" {
		what += " (" + sc + ")"
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return cluster.ServerError(err, "")
	case apierrors.IsBadRequest(err):
		return command.WithHint(fmt.Errorf("the API server refuses to list %s: %w", what, err),
			"check -l and --field-selector: many resources can be selected by the fields metadata.name and "+
				"metadata.namespace only")
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return command.WithHint(fmt.Errorf("the API server does not list %s: %w", what, err),
			"kubectl api-resources lists what it has")
	}
	return nil
}
