package store

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Representation says in which Go form a collection holds its objects. One
// resource held in two forms is two collections: their bodies differ.
type Representation string

// The representations.
const (
	// Typed objects are Go structs such as *corev1.Pod.
	Typed Representation = "typed"
	// Unstructured objects are *unstructured.Unstructured.
	Unstructured Representation = "unstructured"
	// Metadata objects are *metav1.PartialObjectMetadata.
	Metadata Representation = "metadata"
)

// Identity names a collection: what was listed, and in which form. A
// resourceVersion from one identity means nothing in another, so each has a
// bucket of its own in the file.
type Identity struct {
	schema.GroupVersionResource

	// Namespace is the scope of the list; empty is every namespace, or a
	// resource that has none.
	Namespace string
	// LabelSelector, FieldSelector and ShardSelector are those of the
	// requests, in the canonical form of their String methods; empty selects
	// everything.
	LabelSelector string
	FieldSelector string
	ShardSelector string
	// Representation is the form of the objects. Empty is Typed.
	Representation Representation
}
