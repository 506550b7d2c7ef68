package format

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	peer "github.com/vmihailenco/msgpack/v5"
)

func FuzzRecordHeaderAsTheMsgpackPackageWroteIt(f *testing.F) {
	f.Add("uid", "12", uint64(7), "protobuf", "namespace", "a")
	f.Fuzz(func(t *testing.T, uid, rv string, seq uint64, encoding, index, value string) {
		h := Header{UID: uid, RV: rv, Seq: seq, Encoding: encoding, Terms: map[string][]string{index: {value, ""}}}
		var b bytes.Buffer
		e := peer.NewEncoder(&b)
		err := errors.Join(e.EncodeArrayLen(headerFields), e.EncodeString(uid), e.EncodeString(rv), e.EncodeUint(seq),
			e.EncodeString(encoding),
			e.EncodeMapLen(1), e.EncodeString(index), e.EncodeArrayLen(2), e.EncodeString(value), e.EncodeString(""))
		if err != nil || !bytes.Equal(AppendHeader(nil, h), b.Bytes()) {
			t.Fatalf("%v: %q, want %q", err, AppendHeader(nil, h), b.Bytes())
		}
		if got, err := decodeHeader(RecordVersion, b.Bytes()); err != nil || !reflect.DeepEqual(got, h) {
			t.Fatalf("got %+v, %v; want %+v", got, err, h)
		}
	})
}
