package fakeapi

import (
	"encoding/binary"
	"errors"
)

// The messages around objects are put together by hand, from the bytes of
// the objects: a list of 100,000 is never decoded.

// protobufMagic begins every message of Kubernetes that is not inside another.
const protobufMagic = "k8s\x00"

const wireBytes = 2

var errNoMetadata = errors.New("the message does not begin with its metadata")

// appendField appends a length-delimited field.
func appendField(dst []byte, field int, value []byte) []byte {
	dst = appendFieldHeader(dst, field, len(value))
	return append(dst, value...)
}

func appendFieldHeader(dst []byte, field, length int) []byte {
	dst = binary.AppendUvarint(dst, uint64(field)<<3|wireBytes)
	return binary.AppendUvarint(dst, uint64(length))
}

// appendEnvelope appends raw as a runtime.Unknown with the magic number.
func appendEnvelope(dst []byte, apiVersion, kindName string, raw []byte) []byte {
	dst = appendEnvelopeHeader(dst, apiVersion, kindName, len(raw))
	return append(dst, raw...)
}

// appendEnvelopeHeader appends all of the envelope but the last field's content.
func appendEnvelopeHeader(dst []byte, apiVersion, kindName string, length int) []byte {
	dst = append(dst, protobufMagic...)
	typeMeta := appendField(nil, 1, []byte(apiVersion))
	typeMeta = appendField(typeMeta, 2, []byte(kindName))
	dst = appendField(dst, 1, typeMeta)
	return appendFieldHeader(dst, 2, length)
}

// appendWatchFrame appends a metav1.WatchEvent with the length in front of it.
func appendWatchFrame(dst []byte, eventType string, object []byte) []byte {
	var head []byte
	head = appendField(head, 1, []byte(eventType))
	inner := len(appendFieldHeader(nil, 1, len(object))) + len(object)
	head = appendFieldHeader(head, 2, inner)
	head = appendFieldHeader(head, 1, len(object))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)+len(object)))
	dst = append(dst, head...)
	return append(dst, object...)
}

// firstField returns field 1 of a message, tag and length included.
func firstField(message []byte) ([]byte, error) {
	if len(message) == 0 || message[0] != 1<<3|wireBytes {
		return nil, errNoMetadata
	}
	length, n := binary.Uvarint(message[1:])
	if n <= 0 || length > uint64(len(message)-1-n) {
		return nil, errNoMetadata
	}
	return message[:1+n+int(length)], nil
}
