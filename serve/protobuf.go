package serve

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/entry"
)

// This file assembles the protobuf messages around objects (runtime.Unknown, WatchEvent, lists) from the objects'
// stored bytes, so that objects need not be decoded.

// protobufMagic begins every protobuf message of Kubernetes that is not part of another message.
const protobufMagic = "k8s\x00"

func appendField(dst []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), value)
}

// appendFieldHead appends the tag and length of a length-delimited field, without its value.
func appendFieldHead(dst []byte, number protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(length))
}

func sizeField(number protowire.Number, length int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(length)
}

// appendEnvelope appends an encoded object in an envelope, that is, as a runtime.Unknown with the magic number.
func appendEnvelope(dst []byte, apiVersion, kind string, raw []byte) []byte {
	dst = append(appendEnvelopeHead(dst, apiVersion, kind, len(raw)), raw...)
	return append(dst, envelopeTail...)
}

// envelopeTail encodes the fields of a runtime.Unknown after the object: contentEncoding and contentType, both empty.
const envelopeTail = "\x1a\x00\x22\x00"

func appendEnvelopeHead(dst []byte, apiVersion, kind string, length int) []byte {
	dst = append(dst, protobufMagic...)
	typeMeta := appendField(nil, 1, []byte(apiVersion))
	typeMeta = appendField(typeMeta, 2, []byte(kind))
	dst = appendField(dst, 1, typeMeta)
	return appendFieldHead(dst, 2, length)
}

// appendWatchFrame appends a metav1.WatchEvent with its length prefix. object is the event's object as a
// runtime.Unknown with the magic number.
func appendWatchFrame(dst []byte, eventType string, object []byte) []byte {
	extension := sizeField(1, len(object))
	dst = binary.BigEndian.AppendUint32(dst, uint32(sizeField(1, len(eventType))+sizeField(2, extension)))
	dst = appendField(dst, 1, []byte(eventType))
	dst = appendFieldHead(dst, 2, extension)
	return appendField(dst, 1, object)
}

// metadataOf splits the protobuf message of an object into its ObjectMeta, which is field 1 in every built-in kind, and
// the bytes before and behind that field.
func metadataOf(message []byte) (before, metadata, behind []byte, err error) {
	for rest := message; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, nil, nil, fmt.Errorf("the message is malformed: %w", entry.ErrDamaged)
		}
		if number == 1 && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			metadata, _ = protowire.ConsumeBytes(rest[tag:])
			return message[:len(message)-len(rest)], metadata, rest[n:], nil
		}
		rest = rest[n:]
	}
	return message, nil, nil, nil
}

const resourceVersionField = 6

// withResourceVersion returns a copy of an object's protobuf message with another resourceVersion. It appends the field
// resourceVersion to the metadata, since a decoder uses the last occurrence of a field.
func withResourceVersion(message []byte, rv string) ([]byte, error) {
	before, metadata, behind, err := metadataOf(message)
	if err != nil {
		return nil, err
	}
	more := sizeField(resourceVersionField, len(rv))
	out := append(make([]byte, 0, len(message)+more+8), before...)
	out = append(appendFieldHead(out, 1, len(metadata)+more), metadata...)
	return append(appendField(out, resourceVersionField, []byte(rv)), behind...), nil
}
