package resident

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settled is a table with some keys that readers find without a lock.
func settledMap(keys int) *Table {
	t := newTable()
	for i := range keys {
		t.put(fmt.Sprintf("%05d", i), tableState("x"))
	}
	t.byKey.settle()
	return t
}

func TestSlotsFindEveryKey(t *testing.T) {
	for _, keys := range []int{0, 1, 2, 3, 1000} {
		table := settledMap(keys)
		base := table.byKey.base.Load()
		for i := range keys {
			key := fmt.Sprintf("%05d", i)
			if e := base.find(key); e == nil || e.key != key || e.object() == nil {
				t.Errorf("%s of %d is not found", key, keys)
			}
		}
		if base.find("none") != nil || base.find("") != nil {
			t.Errorf("of %d: a key is found that is not there", keys)
		}
	}
}

// A slot has objects of one type. What is of another, and what was removed and comes again, is found all the same.
func TestSlotsOfSeveralTypes(t *testing.T) {
	table := settledMap(10)
	other := &corev1.ConfigMap{}
	table.put("00003", &State{RV: "2", Obj: other})
	if got := table.Get("00003"); got != other {
		t.Errorf("after a change of the type: %T", got)
	}
	pod := tableState("y")
	table.put("00003", pod)
	if got := table.Get("00003"); got != pod.Obj {
		t.Errorf("after another: %T", got)
	}
	table.remove("00004")
	if got := table.Get("00004"); got != nil {
		t.Errorf("after a remove: %v", got)
	}
	table.put("00004", pod)
	if got := table.Get("00004"); got != pod.Obj {
		t.Errorf("when it is back: %v", got)
	}
	table.byKey.settle()
	for _, key := range []string{"00003", "00004"} {
		if e := table.byKey.base.Load().find(key); e == nil || e.object() != any(pod.Obj) {
			t.Errorf("%s is not in the new base", key)
		}
	}
}

// What was replaced or removed is not kept.
func TestSlotsKeepNoOldObject(t *testing.T) {
	table := settledMap(10)
	var old []weak.Pointer[corev1.Pod]
	for i := range 3 {
		s := &State{RV: "2", Obj: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "old"}}}
		table.put(fmt.Sprintf("%05d", i), s)
		old = append(old, weak.Make(s.Obj.(*corev1.Pod)))
	}
	table.put("00000", tableState("new"))
	table.remove("00001")
	table.put("00002", &State{Obj: &corev1.ConfigMap{}})
	runtime.GC()
	for i, p := range old {
		if p.Value() != nil {
			t.Errorf("the object that key %d had is kept", i)
		}
	}
	runtime.KeepAlive(table)
}
