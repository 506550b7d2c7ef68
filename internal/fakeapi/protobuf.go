package fakeapi

import (
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Lists and watch events are assembled by hand from encoded objects, so that a list of 100,000 objects is never
// decoded.

// protobufMagic is the prefix of every Kubernetes protobuf message that is not nested in another message.
const protobufMagic = "k8s\x00"

const wireBytes = 2

func appendField(dst []byte, field int, value []byte) []byte {
	dst = appendFieldHeader(dst, field, len(value))
	return append(dst, value...)
}

func appendFieldHeader(dst []byte, field, length int) []byte {
	dst = binary.AppendUvarint(dst, uint64(field)<<3|wireBytes)
	return binary.AppendUvarint(dst, uint64(length))
}

// appendEnvelope appends the encoded object raw as a runtime.Unknown message, after protobufMagic.
func appendEnvelope(dst []byte, apiVersion, kindName string, raw []byte) []byte {
	dst = appendEnvelopeHeader(dst, apiVersion, kindName, len(raw))
	return append(dst, raw...)
}

// appendEnvelopeHeader appends the part of the envelope (runtime.Unknown) that precedes the encoded object.
func appendEnvelopeHeader(dst []byte, apiVersion, kindName string, length int) []byte {
	dst = append(dst, protobufMagic...)
	typeMeta := appendField(nil, 1, []byte(apiVersion))
	typeMeta = appendField(typeMeta, 2, []byte(kindName))
	dst = appendField(dst, 1, typeMeta)
	return appendFieldHeader(dst, 2, length)
}

// appendWatchFrame appends a metav1.WatchEvent, preceded by the event's length.
func appendWatchFrame(dst []byte, eventType string, object []byte) []byte {
	event := metav1.WatchEvent{Type: eventType, Object: runtime.RawExtension{Raw: object}}
	// Marshalling a struct of a string and bytes cannot fail.
	body, _ := event.Marshal()
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}
