// Package codec turns objects into bytes and back, and reads labels and fields from the bytes of an object that nobody
// has decoded.
//
// For chooses the codec for a Go type: canonical msgpack for *unstructured.Unstructured, generated protobuf where the
// type has it, and JSON in msgpack for other types. View reads what any of them wrote as unstructured objects.
//
//	c, err := codec.For(&corev1.Pod{})
//	payload, err := c.Append(nil, pod)
//	obj, err := c.Decode(payload)
//
// Encoding is faithful first and fast second: unstructured objects come back exactly (an int64 is not a float64, nil is
// not empty, unknown fields stay), typed objects as far as apiequality.Semantic tells them apart. It is deterministic:
// equal objects give equal bytes in every build, so that bytes can be compared in place of objects. Codec.Fingerprint
// changes when a build may have lost fields that another knows.
//
// Decoding trusts nothing: lengths, depth and what an array announces are bounded by the data, and what does not fit is
// an error that wraps entry.ErrDamaged or entry.ErrIncompatible, and that quotes no content. An object shares no memory
// with the bytes that it was decoded from.
package codec
