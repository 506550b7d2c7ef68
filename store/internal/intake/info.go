package intake

import (
	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Take updates Objects and Newest of i for the write x. found says whether its key was stored before.
func Take(i *entry.Info, x *memtable.Write, found bool) {
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

// noteTyped sets Attributes.Schema to the codec's fingerprint if it says that all payloads are as sent, and the payload
// of x depends on the Go type.
func (in *Intake) noteTyped(i *entry.Info, x *memtable.Write) {
	if x.Typed && !x.Del && in.Codec != nil && i.Attributes.Schema == codec.SentFingerprint(in.Codec) {
		i.Attributes.Schema = in.Codec.Fingerprint()
	}
}

// isTyped reports whether Attributes.Schema says that payloads depend on the Go type.
func (in *Intake) isTyped(schema string) bool {
	return schema != "" && in.Codec != nil && schema != codec.SentFingerprint(in.Codec)
}

// advance records the resourceVersion and the last contact of a batch, if it has them. A resourceVersion that cannot be
// compared is not recorded: MustRelist is set instead.
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
