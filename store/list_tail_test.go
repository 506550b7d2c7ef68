package store_test

import (
	"fmt"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestListThatLacksManyKeys checks that a list removes all stored objects after its last key, even if there are more
// than the 10,000 keys that are read at a time (issue 37).
func TestListThatLacksManyKeys(t *testing.T) {
	s := storetest.Open(t, byHand())
	store.NoSync(s)
	c := openPods(t, s, nil)
	ops := make([]entry.Op, 20_003)
	for n := range ops {
		ops[n] = upsert(fmt.Sprintf("a/%05d", n), strconv.Itoa(n+1))
	}
	relist(t, c, store.ReplaceOptions{}, "30000", ops...)
	flush(t, s)
	changes := relist(t, c, store.ReplaceOptions{}, "30001", ops[0])
	if len(changes) != len(ops)-1 {
		t.Errorf("%d changes, want the deletes of %d objects", len(changes), len(ops)-1)
	}
	flush(t, s)
	wantStrings(t, "the objects after the list", list(t, c), "a/00000 uid=uid-a/00000 rv=1")
	if info := infoOf(t, c); info.Objects != 1 {
		t.Errorf("Info counts %d objects", info.Objects)
	}
}

// TestRewriteOfAnUncommittedUpdate checks that a durable handler receives an uncommitted update although a list with
// ReplaceOptions.Rewrite then stores the same state in another encoding (issue 37).
func TestRewriteOfAnUncommittedUpdate(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "1", upsert("a/x", "1"))
	flush(t, s)
	handler := cursorOf(t, c, "h")
	catchUp(t, handler)
	flush(t, s)
	sender, updated := storetest.NewSender(storetest.PodCodec()), storetest.Pod("a/x", "uid-a/x", "2")
	payload, err := storetest.PodCodec().Append(nil, updated)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, "2", entry.Op{Object: sender.Raw(updated, payload)})
	other := protowire.AppendTag(payload[:len(payload):len(payload)], 1000, protowire.VarintType)
	other = protowire.AppendVarint(other, 1)
	changes := relist(t, c, store.ReplaceOptions{Rewrite: true}, "3", entry.Op{Object: sender.Raw(updated, other)})
	wantStrings(t, "changes of the list", describe(changes))
	flush(t, s)
	wantStrings(t, "the handler receives", catchUp(t, handler), "+ a/x uid=uid-a/x rv=2")
	e, found, err := s.Record(t.Context(), storetest.Pods, "a/x")
	if err != nil || !found || string(e.Payload) != string(other) {
		t.Errorf("the bytes of the list are not stored: %v, %v", found, err)
	}
}
