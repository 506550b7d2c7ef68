// Package consumer has what consumers of a collection's changelog are given and keep: changes, and how far they have
// come. Durable handlers have a cursor (store.Cursor), whose Position is in the file; readers that are not registered
// keep the number of the last change (store.View.Changes).
package consumer
