package store_test

import (
	"sync/atomic"

	"github.com/larder-dev/larder/internal/hook"
)

type hookGate struct{ fail atomic.Pointer[error] }

func (g *hookGate) hooks() *hook.Hooks {
	return &hook.Hooks{Commit: func(commit func() error) error {
		if err := g.fail.Load(); err != nil && *err != nil {
			return *err
		}
		return commit()
	}}
}
