package entry

// Entry is an object as a collection stores it, for those who carry it elsewhere without decoding it.
type Entry struct {
	// Key is the object's, as client-go's cache has it: namespace/name, or name.
	Key string
	// UID and ResourceVersion are those of the object.
	UID             string
	ResourceVersion string
	// Encoding is the Name of the codec that wrote Payload.
	Encoding string
	// Payload is what the codec wrote: not compressed, not sealed.
	Payload []byte
}
