// Package codec turns objects into bytes and back, and reads labels and fields from an encoded object without decoding
// it.
//
// For chooses the codec for a Go type: canonical msgpack for *unstructured.Unstructured, generated protobuf if the type
// has it, and JSON in msgpack for other types. View decodes the payloads of all of them as unstructured objects.
//
//	c, err := codec.For(&corev1.Pod{})
//	payload, err := c.Append(nil, pod)
//	obj, err := c.Decode(payload)
//
// Encoding is faithful first and fast second. Unstructured objects are preserved exactly (an int64 is not a float64,
// nil is not empty, unknown fields stay), typed objects as far as apiequality.Semantic distinguishes them. It is
// deterministic: equal objects give equal bytes in every build, so that bytes can be compared in place of objects.
// Codec.Fingerprint changes when a build may have lost fields that another one knows.
//
// Decoding does not trust its input. The data bound all lengths, the depth, and the announced sizes of arrays. An error
// for data that do not fit wraps entry.ErrDamaged or entry.ErrIncompatible, and quotes no content. An object shares no
// memory with the bytes that it was decoded from.
package codec
