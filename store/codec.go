package store

import "k8s.io/apimachinery/pkg/runtime"

// Codec turns objects into payloads and back. It is safe for concurrent use.
type Codec interface {
	// Name names the encoding: "protobuf" or "msgpack".
	Name() string
	// Fingerprint changes whenever an object written by an older build may
	// have lost fields that this build knows (see Attributes.Schema).
	Fingerprint() string
	// Append encodes obj at the end of dst and returns the extended slice. Equal objects give
	// equal bytes.
	Append(dst []byte, obj runtime.Object) ([]byte, error)
	// Decode returns a new object that shares no memory with data.
	Decode(data []byte) (runtime.Object, error)
	// Check returns an error that names the type if obj is not of the type that this codec holds.
	Check(obj runtime.Object) error
}
