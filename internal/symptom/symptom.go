package symptom

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/fifo"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/mapper"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/page"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/history"
	"github.com/larder-dev/larder/store/query"
	"github.com/larder-dev/larder/store/seal"
)

// Page is the URL of docs/troubleshooting.md.
const Page = "https://github.com/larder-dev/larder/blob/main/docs/troubleshooting.md"

// Program is the section for errors that only a programming mistake causes, or whose text needs no further explanation.
const Program = "program"

// Symptom is a sentinel error, its name, and the section of docs/troubleshooting.md that explains it.
type Symptom struct {
	Err     error
	Name    string
	Section string
}

// Errors lists all sentinel errors. If an error wraps several, the first in this list determines its section.
var Errors = []Symptom{
	{store.ErrNoSpace, "store.ErrNoSpace", "nospace"},
	{store.ErrSlowDisk, "store.ErrSlowDisk", "slowdisk"},
	{store.ErrStillWriting, "store.ErrStillWriting", "slowdisk"},
	{store.ErrOutcomeUnknown, "store.ErrOutcomeUnknown", "outcomeunknown"},
	{store.ErrReplaced, "store.ErrReplaced", "replaced"},
	{store.ErrOverwritten, "store.ErrOverwritten", "replaced"},
	{snapshot.ErrDamaged, "snapshot.ErrDamaged", "snapshotdamaged"},
	{entry.ErrDamaged, "entry.ErrDamaged", "damaged"},
	{store.ErrOtherCluster, "store.ErrOtherCluster", "othercluster"},
	{store.ErrLocked, "store.ErrLocked", "locked"},
	{store.ErrNewerFormat, "store.ErrNewerFormat", "format"},
	{snapshot.ErrNewerFormat, "snapshot.ErrNewerFormat", "format"},
	{store.ErrForeign, "store.ErrForeign", "foreign"},
	{store.ErrExists, "store.ErrExists", "foreign"},
	{snapshot.ErrNotSnapshot, "snapshot.ErrNotSnapshot", "foreign"},
	{seal.ErrWrongKey, "seal.ErrWrongKey", "keys"},
	{seal.ErrSealed, "seal.ErrSealed", "keys"},
	{snapshot.ErrEncrypted, "snapshot.ErrEncrypted", "keys"},
	{snapshot.ErrIdentity, "snapshot.ErrIdentity", "keys"},
	{snapshot.ErrNoSeed, "snapshot.ErrNoSeed", "seed"},
	{snapshot.ErrUnsigned, "snapshot.ErrUnsigned", "seed"},
	{remote.ErrPlainHTTP, "remote.ErrPlainHTTP", "seed"},
	{snapshot.ErrSignature, "snapshot.ErrSignature", "seed"},
	{remote.ErrReadOnly, "remote.ErrReadOnly", "snapshots"},
	{reflector.ErrStrays, "reflector.ErrStrays", "strays"},
	{reflector.ErrPutOff, "reflector.ErrPutOff", "server"},
	{reflector.ErrShortWatch, "reflector.ErrShortWatch", "connection"},
	{reflector.ErrSilent, "reflector.ErrSilent", "connection"},
	{reflector.ErrOverdue, "reflector.ErrOverdue", "connection"},
	{mapper.ErrUnreachable, "mapper.ErrUnreachable", "connection"},
	{access.ErrUnreachable, "access.ErrUnreachable", "connection"},
	{entry.ErrIncompatible, "entry.ErrIncompatible", "leftout"},
	{snapshot.ErrUndecodable, "snapshot.ErrUndecodable", "leftout"},
	{codec.ErrNoKind, "codec.ErrNoKind", "leftout"},
	{reflector.ErrPanicked, "reflector.ErrPanicked", "leftout"},
	{audit.ErrNotLive, "audit.ErrNotLive", "incidents"},
	{audit.ErrNotAuditable, "audit.ErrNotAuditable", "incidents"},
	{durable.ErrInMemory, "durable.ErrInMemory", "memory"},
	{consumer.ErrNotKept, "consumer.ErrNotKept", "changes"},
	{consumer.ErrNone, "consumer.ErrNone", "changes"},
	{consumer.ErrReset, "consumer.ErrReset", "changes"},
	{history.ErrExpired, "history.ErrExpired", "changes"},
	{history.ErrAhead, "history.ErrAhead", "changes"},

	{store.ErrClosed, "store.ErrClosed", Program},
	{store.ErrReadOnly, "store.ErrReadOnly", Program},
	{store.ErrNoCollection, "store.ErrNoCollection", Program},
	{store.ErrCollectionOpen, "store.ErrCollectionOpen", Program},
	{store.ErrNoIndex, "store.ErrNoIndex", Program},
	{store.ErrReplacing, "store.ErrReplacing", Program},
	{query.ErrNoField, "query.ErrNoField", Program},
	{consumer.ErrOpen, "consumer.ErrOpen", Program},
	{snapshot.ErrNoCollection, "snapshot.ErrNoCollection", Program},
	{snapshot.ErrOrder, "snapshot.ErrOrder", Program},
	{snapshot.ErrTooLarge, "snapshot.ErrTooLarge", Program},
	{informer.ErrForeign, "informer.ErrForeign", Program},
	{informer.ErrTransformVersion, "informer.ErrTransformVersion", Program},
	{fifo.ErrNotAcked, "fifo.ErrNotAcked", Program},
	{reflector.ErrRunTwice, "reflector.ErrRunTwice", Program},
	{reflector.ErrIncomparable, "reflector.ErrIncomparable", Program},
	{reflector.ErrSeedLater, "reflector.ErrSeedLater", Program},
	{page.ErrNotFound, "page.ErrNotFound", Program},
}

// Of returns the URL of the section of docs/troubleshooting.md that explains an error; "" if the page says no more than
// the error.
func Of(err error) string {
	for _, s := range Errors {
		if errors.Is(err, s.Err) {
			if s.Section == Program {
				return ""
			}
			return Page + "#" + s.Section
		}
	}
	if section := ofServer(err); section != "" {
		return Page + "#" + section
	}
	return ""
}

func ofServer(err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return "denied"
	case apierrors.IsForbidden(err):
		return "forbidden"
	case apierrors.HasStatusCause(err, "ClientWatchDecoding"):
		// The connection was lost while the client read a watch.
		return "connection"
	case meta.IsNoMatchError(err):
		return "notserved"
	case errors.As(err, &status):
		if code := status.Status().Code; code >= http.StatusInternalServerError || code == http.StatusTooManyRequests {
			return "server"
		}
	}
	return ""
}
