package store

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/engine"
)

// CurrentKey returns the id of the provider's current key, under which Rekey seals; empty without Options.Encryption.
func (s *Store) CurrentKey(ctx context.Context) (id string, err error) { return s.keys.CurrentKey(ctx) }

// Seals reports whether Options.Encryption seals a new collection of the resource.
func (s *Store) Seals(r schema.GroupResource) bool { return s.o.Encryption.Seals(r) }

// Sealed reports whether a collection is sealed, or will be from its next write on. Do not check the resource instead:
// a sealed collection stays sealed when Options.Encryption no longer names its resource.
func (s *Store) Sealed(info entry.Info) bool {
	return info.Sealed || s.Seals(info.Identity.GroupResource())
}

// beginSealing decides whether new records are sealed. It fails if they must be and the store has no keys.
func (c *Collection) beginSealing(st engine.CollectionState, must bool) error {
	err := c.read.Coder.Begin(st.Sealed, must, c.store.Seals(c.id.GroupResource()))
	if c.read.Coder.Sealing() {
		c.compressor.Seal()
	}
	return err
}

// markSealed sets Sealed in the state if new records are sealed, and PlainText if the collection has older records.
func (c *Collection) markSealed(st *engine.CollectionState) {
	if !c.read.Coder.Sealing() || st.Sealed {
		return
	}
	st.Sealed = true
	st.PlainText = st.Objects > 0 || st.NextSeq > 1
}

// logPlainText logs, once per collection, that the file has plain text of a collection that is now sealed.
func (c *Collection) logPlainText(ctx context.Context) error {
	if c.readOnly || !c.read.Coder.Sealing() {
		return nil
	}
	info, err := c.read.Info(ctx)
	if err != nil || !info.PlainText {
		return err
	}
	if _, logged := c.store.plainLogged.LoadOrStore(c.read.Name, true); !logged {
		c.store.logger().Info(
			"New records of the collection are sealed; older records stay legible in the file until it is rekeyed",
			"collection", c.id.String())
	}
	return nil
}
