package mirror

import (
	"context"
	"errors"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// auditWait limits how long an audit of a collection waits until the collection's informer is live.
const auditWait = 2 * time.Minute

// auditPatience limits how long the informer may report an error while an audit waits for it: an offline sync must not
// keep the user waiting.
const auditPatience = 10 * time.Second

func (m *mirror) Audit(ctx context.Context) (all []source.Audited, err error) {
	for _, mb := range m.all() {
		a := source.Audited{Collection: mb.identity.ID(), Resource: mb.resource.String(),
			Representation: string(mb.identity.Representation), Keys: []string{}}
		if sc := input.Scope(source.NewCollection(entry.Info{Identity: mb.identity})); sc != "all" {
			a.Scope = sc
		}
		report, err := mb.audit(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		a.Objects, a.Listed, a.Differ = report.Objects, report.Listed, report.Differing
		a.Keys = append(a.Keys, report.Keys...)
		if err != nil {
			a.Error = err.Error()
		}
		all = append(all, a)
	}
	return all, nil
}

func (mb *member) audit(ctx context.Context) (audit.Report, error) {
	limited, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	for failing := time.Now(); ; {
		st := mb.informer.Status()
		if st.Source == informer.Live {
			return mb.informer.Audit(ctx)
		}
		if st.Err == nil {
			failing = time.Now()
		}
		if limited.Err() != nil || time.Since(failing) > auditPatience {
			return audit.Report{}, errors.Join(audit.ErrNotLive, st.Err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limited.Done():
		}
	}
}
