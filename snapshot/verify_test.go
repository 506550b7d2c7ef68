package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

func TestVerify(t *testing.T) {
	pods := collectionOf(core("pods"), "Pod", entry.Typed)
	good := recordOf(t, pods,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"a","uid":"u","resourceVersion":"1"}}`)
	at := func(key string, change func(*entry.Entry)) entry.Entry {
		r := keep(good)
		r.Key = key
		change(&r)
		return r
	}
	records := []entry.Entry{
		good,
		at("b", func(r *entry.Entry) { r.UID = "" }),
		at("c", func(r *entry.Entry) { r.ResourceVersion = "2" }),
		at("d", func(r *entry.Entry) { r.Payload = []byte("\x00\x00\xff\xff") }),
		at("e", func(r *entry.Entry) { r.Encoding = "of the future" }),
		at("f", func(r *entry.Entry) { r.Encoding, r.Payload = encodingMsgpack, []byte("\xc4\x05hello") }),
	}
	want := content{collections: []contentOf{{pods, records}, {collectionOf(core("nodes"), "Node", entry.Typed), nil}}}
	data := want.bytes(t, smallBlocks)
	report, err := fileOfBytes(t, data).Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	problems := []string{
		`pods.v1: "b" has no UID`,
		`pods.v1: "b" has another UID or resourceVersion than its record says`,
		`pods.v1: "c" has another UID or resourceVersion than its record says`,
		`pods.v1: "d" cannot be decoded: malformed protobuf: the snapshot is damaged`,
		`pods.v1: "f" cannot be decoded: malformed msgpack: the snapshot is damaged`,
	}
	if !slices.Equal(report.Problems, problems) || report.Objects != 6 || report.Collections != 2 || report.Unknown != 1 ||
		report.Bytes == 0 {
		t.Errorf("%+v\n%s", report, strings.Join(report.Problems, "\n"))
	}
	for _, p := range partsOf(data) {
		if p.kind == kindIndex && p.end > p.start {
			data[p.start] ^= 1
		}
	}
	report, err = fileOfBytes(t, data).Verify(t.Context())
	if err != nil || len(report.Problems) != 1 ||
		!strings.Contains(report.Problems[0], "6 objects are missing from pods") {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestVerifyListsNotTooMuch(t *testing.T) {
	of := contentOf{collection: collectionOf(core("pods"), "Pod", entry.Typed)}
	for n := range 3 * maxProblems {
		of.records = append(of.records, entry.Entry{Key: fmt.Sprintf("a/%05d", n), UID: "u", Encoding: encodingProtobuf,
			Payload: []byte("x")})
	}
	data := content{collections: []contentOf{of}}.bytes(t, snapshot.WriterOptions{})
	r, err := fileOfBytes(t, data).Verify(t.Context())
	if err != nil || len(r.Problems) != maxProblems+1 || strings.Contains(r.Problems[maxProblems], "a/0") {
		t.Errorf("%d problems, %v", len(r.Problems), err)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	of := contentOf{collection: snapshot.Collection{Identity: identityOf("pods")}}
	for i := range 2000 {
		of.records = append(of.records, rec(strings.Repeat("k", i+1), 0))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := content{collections: []contentOf{of}}.bytes(t, snapshot.WriterOptions{})
	if _, err := fileOfBytes(t, data).Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
