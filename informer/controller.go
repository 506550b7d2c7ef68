package informer

import (
	"context"

	"k8s.io/client-go/tools/cache"
)

// GetController returns a Controller that reports the informer's state and cannot run it, as in client-go.
func (i *Informer) GetController() cache.Controller { return controller{i} }

type controller struct{ i *Informer }

func (c controller) RunWithContext(context.Context)      {}
func (c controller) Run(<-chan struct{})                 {}
func (c controller) HasSynced() bool                     { return c.i.HasSynced() }
func (c controller) HasSyncedChecker() cache.DoneChecker { return c.i.HasSyncedChecker() }
func (c controller) LastSyncResourceVersion() string     { return c.i.LastSyncResourceVersion() }
