package informer

import (
	"context"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store"
)

// Durable returns the durable handlers; see package durable. Handlers can be added until the run ends.
func (i *Informer) Durable() *durable.Handlers { return i.durable }

func (i *sharedInformer) durableOptions() durable.Options {
	o := durable.Options{Description: i.o.ObjectDescription, Synced: i.sync.done, InMemory: i.memoryOnly, Clock: i.clock}
	if c, ok := i.store.(*store.Collection); ok {
		o.Collection, o.Flush = c, i.o.Store.Flush
		info, err := c.Info(context.Background())
		o.Types, o.AsSent = i.attrs.Schema, err == nil && codec.AsSent(info.Attributes.Schema)
	}
	return o
}
