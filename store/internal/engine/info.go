package engine

import (
	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// CountWrite updates i.Objects and i.Newest for the write x. found is true if the key was stored before.
func CountWrite(i *entry.Info, x *Write, found bool) {
	switch {
	case x.Del:
		i.Newest = DropRef(i.Newest, x.Key)
		if found {
			i.Objects--
		}
	default:
		i.Newest = OfferRef(i.Newest, entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}, NewestRefs)
		if !found {
			i.Objects++
		}
	}
}

// noteTyped sets Attributes.Schema to the codec's fingerprint if the payload of x depends on its Go type, and
// Attributes.Schema still means that all payloads are as the server sent them.
func (in *Intake) noteTyped(i *entry.Info, x *Write) {
	if x.Typed && !x.Del && in.Codec != nil && i.Attributes.Schema == codec.SentFingerprint(in.Codec) {
		i.Attributes.Schema = in.Codec.Fingerprint()
	}
}

// isTyped reports whether schema, from Attributes, means that payloads depend on the Go type.
func (in *Intake) isTyped(schema string) bool {
	return schema != "" && in.Codec != nil && schema != codec.SentFingerprint(in.Codec)
}

// advance sets the resourceVersion and the last contact of a batch, if the batch has them. For a resourceVersion that
// cannot be compared, advance sets MustRelist instead.
func advance(i *entry.Info, b entry.Batch) {
	if !b.LastContact.IsZero() {
		i.LastContact = b.LastContact
	}
	switch {
	case b.ResourceVersion == "":
	case entry.ComparableRV(b.ResourceVersion):
		i.ResourceVersion = b.ResourceVersion
	default:
		i.ResourceVersion, i.MustRelist = "", entry.MustRelistOpaque
	}
}
