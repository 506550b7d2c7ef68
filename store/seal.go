package store

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// sealsWith returns the key that new records of the collection are sealed with; nil if the collection is not sealed.
func (c *Collection) sealsWith() *seal.DataKey {
	if !c.sealing.Load() {
		return nil
	}
	return c.store.keys.held().current
}

// appendRecord appends a record of the bucket to dst, and seals it if the collection is sealed. h.Terms must be a
// result of storedTerms.
func (c *Collection) appendRecord(dst []byte, bucket []byte, key string, h format.Header, payload []byte) []byte {
	if k := c.sealsWith(); k != nil {
		return k.AppendSealed(dst, bucket, c.name, key, h, payload)
	}
	return format.AppendRecord(dst, c.name, key, h, payload)
}

// storedTerms returns the terms as they are stored in a record: tokens if the collection is sealed.
func (c *Collection) storedTerms(terms map[string][]string) map[string][]string {
	if k := c.sealsWith(); k != nil {
		return k.Tokens(c.name, terms)
	}
	return terms
}

// sealsAs reports whether a record with this header would be sealed with the same key today, or with none.
func (c *Collection) sealsAs(h format.Header) bool {
	if k := c.sealsWith(); k != nil {
		return h.SealedBy == k.ID
	}
	return h.SealedBy == 0
}

func (r *reader) opener() seal.Opener { return r.store.keys.opener(r.name) }

// seal sets sealing: whether new records are sealed. It fails if the collection is or must be sealed and the store has
// no keys.
func (c *Collection) seal(st state) error {
	switch {
	case st.Sealed && c.store.keys.locked():
		return c.store.keys.errSealed()
	case c.mustSeal && c.store.keys.locked():
		return errors.New("it is to be sealed (CollectionOptions.Seal), and the store has no keys (Options.Encryption)")
	}
	sealing := !c.store.keys.locked() && (st.Sealed || c.mustSeal || c.store.Seals(c.id.GroupResource()))
	if sealing {
		c.compressor.Seal()
	}
	c.sealing.Store(sealing)
	return nil
}

// markSealed sets Sealed in the state if the collection is sealed from now on, and PlainText if it has older records.
func (c *Collection) markSealed(st *state) {
	if !c.sealing.Load() || st.Sealed {
		return
	}
	st.Sealed = true
	st.PlainText = st.Objects > 0 || st.NextSeq > 1
}

// tellPlainText logs, once, that the file has plain text of a collection that is sealed now.
func (c *Collection) tellPlainText(ctx context.Context) error {
	if c.readOnly || !c.sealing.Load() {
		return nil
	}
	info, err := c.reader.Info(ctx)
	if err != nil || !info.PlainText {
		return err
	}
	if _, told := c.store.plainTold.LoadOrStore(c.name, true); !told {
		c.store.logger().Info(
			"What is stored of the collection from now on is sealed; what was stored before stays legible in the file until "+
				"it is rekeyed", "collection", c.id.String())
	}
	return nil
}
