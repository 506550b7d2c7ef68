// Package codec turns objects into bytes and back, and reads labels and fields from an encoded object without decoding
// it.
//
// For chooses the codec for a Go type: canonical msgpack for *unstructured.Unstructured, generated protobuf if the type
// has it, and JSON in msgpack for other types. View returns a codec that decodes all payloads as unstructured objects.
//
//	c, err := codec.For(&corev1.Pod{})
//	payload, err := c.Append(nil, pod)
//	obj, err := c.Decode(payload)
//
// Equal objects give equal bytes in every build, so callers compare bytes in place of objects. Decoding does not trust
// its input: the length of the data bounds all announced lengths, array sizes and the depth. Errors wrap
// entry.ErrDamaged or entry.ErrIncompatible, and quote no content.
package codec
