package entry

// Entry is a stored object in encoded form, for callers that pass it on without decoding it.
type Entry struct {
	// Key is the object's key in client-go's cache: namespace/name, or name.
	Key string
	// UID and ResourceVersion are the object's.
	UID             string
	ResourceVersion string
	// Encoding is the Codec.Name of the codec that wrote Payload.
	Encoding string
	// Payload is the encoded object as the codec wrote it: neither compressed nor sealed (encrypted).
	Payload []byte
}
