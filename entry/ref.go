package entry

import (
	"crypto/sha256"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// ObjectRef identifies one state of one object.
type ObjectRef struct {
	Key             string // the object's key; RefKey of a key that is too long
	UID             string
	ResourceVersion string
}

// MaxKey is the maximum length of an object's key in the store, in bytes. Kubernetes' names have at most 253 bytes,
// except for a few kinds, such as RBAC roles.
const MaxKey = 16 << 10

const refPrefix = 256

// RefKey returns an object's name in an ObjectRef: the key, or the start, length and hash of a key longer than MaxKey.
func RefKey(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s… (%d bytes, %x)", strings.ToValidUTF8(key[:refPrefix], ""), len(key), sum[:8])
}

// RefOf identifies the state of obj.
func RefOf(obj metav1.Object) ObjectRef {
	key := obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		key = ns + "/" + key
	}
	return ObjectRef{Key: RefKey(key), UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion()}
}

// LeftOutReason is why an object was refused.
type LeftOutReason string

// Reasons for which an object is refused.
const (
	// LeftOutTransform means that the informer's transform failed.
	LeftOutTransform LeftOutReason = "transform"
	// LeftOutIndex means that an index function failed.
	LeftOutIndex LeftOutReason = "index"
	// LeftOutCodec means that the codec failed on the object, or is for another Go type.
	LeftOutCodec LeftOutReason = "codec"
	// LeftOutKey means that the object has no key, or a key of more than MaxKey bytes.
	LeftOutKey LeftOutReason = "key"
)

// LeftOut is a state of an object that the store or the informer has refused. The collection holds an older state of
// the object, or none. The LeftOut is stored together with the resourceVersion that covers the object, until the object
// is stored or deleted.
type LeftOut struct {
	ObjectRef
	Reason LeftOutReason
}

// ComparableRV reports whether rv can be compared with other resourceVersions.
func ComparableRV(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}

// NewerRV reports whether a is newer than b. It is false for resourceVersions that cannot be compared.
func NewerRV(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}
