package wire

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

func listJSON(v *values, sent *codec.Sent) (*List, error) {
	l := &List{}
	items, has := texts{sent: sent, list: l}, false
	var status metav1.Status
	err := v.members(func(name string) error {
		switch name {
		case "apiVersion":
			return v.decode(&l.APIVersion)
		case "kind":
			return v.decode(&l.Kind)
		case "metadata":
			return v.decode(&l.ListMeta)
		case "items":
			has = true
			return v.elements(items.add)
		case "status", "message", "reason", "details", "code": // only a Status has these members
			return v.member(name, &status)
		}
		_, err := v.next()
		return err
	})
	if err == nil {
		err = l.check(status, has)
	}
	if err != nil {
		return nil, err
	}
	return l, items.make()
}

type texts struct {
	sent  *codec.Sent
	list  *List
	all   [][]byte
	size  int
	waits bool
}

const textsSize = 1 << 20

func (t *texts) add(text []byte) error {
	t.all = append(t.all, bytes.Clone(text))
	if t.size += len(text); t.size < textsSize || t.waits && t.list.Kind == "" {
		return nil
	}
	return t.make()
}

// make decodes the collected items and adds them to the list. Items without a kind of their own are kept until the
// list's kind has been read. The items of custom resources precede their list's kind, but have kinds of their own.
func (t *texts) make() error {
	of := itemOf(t.list.TypeMeta)
	made, errs := make([]*entry.Undecoded, len(t.all)), make([]error, len(t.all))
	base.Parallel(len(t.all), t.size, func(i int) { made[i], errs[i] = t.sent.JSON(t.all[i], of) })
	n := 0
	for ; n < len(made); n++ {
		if t.waits = errors.Is(errs[n], codec.ErrNoKind) && t.list.Kind == ""; t.waits {
			break
		}
		if err := t.list.add(made[n], errs[n]); err != nil {
			return err
		}
		t.size -= len(t.all[n])
	}
	t.all = slices.Delete(t.all, 0, n)
	return nil
}

func (l *List) add(u *entry.Undecoded, err error) error {
	if err != nil {
		return opaque(err)
	}
	l.Items = append(l.Items, u)
	return nil
}

// opaque returns err without the errors that it wraps. It is for objects that have arrived as a whole: a decoder's
// io.ErrUnexpectedEOF must not make the answer look as if it broke off.
func opaque(err error) error { return errors.New(err.Error()) }

// itemOf returns the apiVersion and kind of a list's items, derived from the list's as client-go does.
func itemOf(list metav1.TypeMeta) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: list.APIVersion, Kind: strings.TrimSuffix(list.Kind, "List")}
}

// members calls fn with the name of each member of a JSON object. fn has to read the member's value.
func (v *values) members(fn func(name string) error) error {
	if err := v.take('{'); err != nil {
		return err
	}
	return v.each('}', func() error {
		var name string
		if err := v.decode(&name); err != nil {
			return err
		}
		if err := v.take(':'); err != nil {
			return err
		}
		return fn(name)
	})
}

func (v *values) elements(fn func(text []byte) error) error {
	if c, _ := v.peek(); c == 'n' { // after an error c is 0, and the next read returns the same error
		var null *struct{}
		return v.decode(&null)
	}
	if err := v.take('['); err != nil {
		return err
	}
	return v.each(']', func() error {
		text, err := v.next()
		if err != nil {
			return err
		}
		return fn(text)
	})
}

// each calls fn for each comma-separated element, and reads up to and including the byte end.
func (v *values) each(end byte, fn func() error) error {
	for n := 0; ; n++ {
		c, err := v.peek()
		switch {
		case err != nil:
			return cutOff(err)
		case c == end:
			return v.take(end)
		case n > 0:
			if err := v.take(','); err != nil {
				return err
			}
		}
		if err := fn(); err != nil {
			return err
		}
	}
}

func (v *values) decode(to any) error {
	text, err := v.next()
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal(text, to); err != nil {
		return errMalformed
	}
	return nil
}

func (v *values) member(name string, to any) error {
	text, err := v.next()
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal([]byte(`{"`+name+`":`+string(text)+`}`), to); err != nil {
		return errMalformed
	}
	return nil
}

func eventJSON(v *values, sent *codec.Sent) (watch.Event, error) {
	if _, err := v.peek(); err != nil {
		return watch.Event{}, err
	}
	var ev watch.Event
	var text []byte
	err := v.members(func(name string) error {
		switch name {
		case "type":
			return v.decode((*string)(&ev.Type))
		case "object":
			object, err := v.next()
			text = bytes.Clone(object)
			return err
		}
		_, err := v.next()
		return err
	})
	if err != nil {
		return ev, err
	}
	if ev.Type == watch.Error {
		var status metav1.Status
		if err := utiljson.Unmarshal(text, &status); err != nil {
			return ev, errMalformed
		}
		ev.Object = &status
		return ev, nil
	}
	if text == nil {
		return ev, errNoObject
	}
	u, err := sent.JSON(text, metav1.TypeMeta{})
	return eventOf(ev.Type, u, err)
}

var errNoObject = errors.New("the server sent an event without an object")

// eventOf returns an event of type t with the object u. Only a bookmark's object is decoded, for its annotations.
func eventOf(t watch.EventType, u *entry.Undecoded, err error) (watch.Event, error) {
	if err != nil {
		return watch.Event{}, opaque(err)
	}
	var obj runtime.Object = u
	if t == watch.Bookmark {
		if obj, err = u.Object(); err != nil {
			return watch.Event{}, opaque(err)
		}
	}
	return watch.Event{Type: t, Object: obj}, nil
}
