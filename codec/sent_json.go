package codec

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/internal/msgpack"
)

// typedJSON returns the msgpack payload of a typed object whose JSON is text. The payload lacks apiVersion and kind,
// which are returned as of; m is the object's metadata. It fails with errUnusual if the caller must decode the object.
func typedJSON(text []byte) (payload []byte, of metav1.TypeMeta, m metav1.ObjectMeta, err error) {
	err = transcode(text, func(t *transcoder) error {
		if _, err := t.sorted(0); err != nil {
			return err
		}
		if err := t.texts(0, map[string]*string{"apiVersion": &of.APIVersion, "kind": &of.Kind}); err != nil {
			return err
		}
		if err := t.meta(&m); err != nil {
			return err
		}
		payload = msgpack.AppendBin(nil, t.without(0, "apiVersion", "kind"))
		return nil
	})
	return payload, of, m, err
}

// complete adds apiVersion and kind to an unstructured object that lacks both fields. It fails with errUnusual if the
// object lacks only one of the two, or has an empty kind.
func (t *transcoder) complete(of metav1.TypeMeta) error {
	kind, hasKind := t.member(0, "kind")
	if hasKind {
		if text, err := t.content(kind); err != nil || t.tokens[kind].kind != '"' || len(text) == 0 {
			return errUnusual
		}
		return nil
	}
	if _, has := t.member(0, "apiVersion"); has || of.Kind == "" {
		return errUnusual
	}
	t.add("apiVersion", of.APIVersion)
	t.add("kind", of.Kind)
	return nil
}

// member returns the index of the value token of an object's member.
func (t *transcoder) member(object int, name string) (value int, found bool) {
	if t.tokens[object].kind != '{' {
		return 0, false
	}
	at := object + 1
	for range t.tokens[object].n {
		if string(t.tokens[at].text) == name {
			return at + 1, true
		}
		at = t.tokens[at+1].next
	}
	return 0, false
}

// meta reads the object's metadata into m. It fails if one of the fields in m is not a string, or occurs twice.
func (t *transcoder) meta(m *metav1.ObjectMeta) error {
	metadata, found := t.member(0, "metadata")
	if !found {
		return nil
	}
	if t.tokens[metadata].kind != '{' {
		return errUnusual
	}
	if _, err := t.sorted(metadata); err != nil {
		return err
	}
	return t.texts(metadata, map[string]*string{
		"name": &m.Name, "namespace": &m.Namespace, "uid": (*string)(&m.UID), "resourceVersion": &m.ResourceVersion,
	})
}

// texts reads string members of an object into the pointers of members. It fails with errUnusual if one of the values
// is not a string.
func (t *transcoder) texts(object int, members map[string]*string) error {
	for name, to := range members {
		at, found := t.member(object, name)
		if !found {
			continue
		}
		if t.tokens[at].kind != '"' {
			return errUnusual
		}
		text, err := t.content(at)
		if err != nil {
			return err
		}
		*to = string(text)
	}
	return nil
}

// without returns the JSON text of an object without the members with these names.
func (t *transcoder) without(object int, names ...string) []byte {
	out := append(make([]byte, 0, len(t.source)), '{')
	at := object + 1
next:
	for range t.tokens[object].n {
		name, value := t.tokens[at], t.tokens[at+1]
		at = value.next
		for _, left := range names {
			if string(name.text) == left {
				continue next
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, t.source[name.start:value.end]...)
	}
	return append(out, '}')
}

// ErrNoKind means that neither an unstructured object nor its list has an apiVersion and kind.
var ErrNoKind = errors.New("the server sent an object without apiVersion and kind, so it cannot be told what it is")

var (
	errMalformed = errors.New("the server sent malformed JSON")
	errMismatch  = errors.New("the server sent JSON that does not fit the type")
)

// malformed returns the error for JSON text that cannot be decoded. It wraps err if text is valid JSON; otherwise the
// error has only the length of text. The error never quotes text.
func malformed(text []byte, err error) error {
	if json.Valid(text) {
		return fmt.Errorf("%w: %w", errMismatch, err)
	}
	return fmt.Errorf("%w (%d bytes)", errMalformed, len(text))
}
