// Package consumer has the types for consumers of a collection's changelog: the changes that they read, and their
// position. A durable handler has a cursor (store.Cursor), whose Position is stored in the file. A reader that is not
// registered keeps its offset itself, the number of the last change (store.View.Changes).
package consumer
