package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/larder-dev/larder/internal/msgpack"
)

// errUnusual is the error for JSON that transcoder does not handle: malformed text, a duplicate name in an object, or
// text that is not UTF-8. The caller then decodes the JSON with client-go's decoder.
var errUnusual = errors.New("JSON that has to be decoded")

// transcoder turns the JSON of an unstructured object into msgpack without making maps. The result equals decoding and
// encoding the object. transcoder first lists the tokens, and then writes them with sorted names.
type transcoder struct {
	source []byte
	in     bytes.Buffer
	dec    *jsontext.Decoder
	tokens []token
	// added is the index in tokens of the first member that transcoder.add appended to the outermost object.
	added int
	// members is a stack of the sorted name tokens of the objects that are being written.
	members []int
	// names holds unescaped copies of the names that the JSON text writes with escapes.
	names []byte
	text  []byte // text is an unescaped copy of the last string with escapes.
}

// token is a name or a value in a JSON text. The tokens of an object's or array's contents follow its token. An
// object's contents are names and values in turn.
type token struct {
	kind jsontext.Kind
	// start and end are the bounds, in the JSON text, of the token and its contents.
	start, end int
	// text is the content of a name, or of a string that transcoder.add appended.
	text []byte
	// n is the number of members of an object, or of elements of an array.
	n int
	// next is the index of the token after this token's contents.
	next int
}

// transcoders pools values because their slices are expensive to grow.
var transcoders = sync.Pool{New: func() any { return &transcoder{dec: jsontext.NewDecoder(&bytes.Buffer{})} }}

// transcode calls fn with the tokens of source, the JSON of one object. It fails with errUnusual if the caller must
// decode the JSON with client-go's decoder.
func transcode(source []byte, fn func(t *transcoder) error) error {
	t := transcoders.Get().(*transcoder)
	defer func() {
		clear(t.tokens) // The tokens would keep source in memory.
		t.source, t.in = nil, bytes.Buffer{}
		transcoders.Put(t)
	}()
	if err := t.list(source); err != nil {
		return err
	}
	return fn(t)
}

func (t *transcoder) list(source []byte) error {
	t.source, t.in = source, *bytes.NewBuffer(source)
	t.dec.Reset(&t.in, jsontext.AllowDuplicateNames(true)) // transcoder.sorted detects duplicate names more cheaply.
	t.tokens, t.members, t.names = t.tokens[:0], t.members[:0], t.names[:0]
	if t.dec.PeekKind() != '{' {
		return errUnusual
	}
	if err := t.scan(); err != nil {
		return err
	}
	if _, err := t.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errUnusual
	}
	t.added = len(t.tokens)
	return nil
}

// add appends a string member to the outermost object, which must not have a member of that name.
func (t *transcoder) add(name, value string) {
	t.tokens = append(t.tokens, token{kind: '"', text: []byte(name)}, token{kind: '"', text: []byte(value)})
}

func (t *transcoder) scan() error {
	kind := t.dec.PeekKind()
	at := len(t.tokens)
	t.tokens = append(t.tokens, token{kind: kind})
	switch kind {
	case '{', '[':
		if _, err := t.dec.ReadToken(); err != nil {
			return errUnusual
		}
		t.tokens[at].start = int(t.dec.InputOffset()) - 1
		n, err := t.inside(kind)
		if err != nil {
			return err
		}
		t.tokens[at].n = n
	default:
		text, err := t.dec.ReadValue()
		if err != nil {
			return errUnusual
		}
		t.tokens[at].start = int(t.dec.InputOffset()) - len(text)
	}
	t.tokens[at].end, t.tokens[at].next = int(t.dec.InputOffset()), len(t.tokens)
	return nil
}

// inside lists the tokens up to the end of an object or array, and returns the number of its members or elements.
func (t *transcoder) inside(kind jsontext.Kind) (n int, err error) {
	for ; ; n++ {
		switch t.dec.PeekKind() {
		case '}', ']':
			if _, err := t.dec.ReadToken(); err != nil {
				return 0, errUnusual
			}
			return n, nil
		case 0:
			return 0, errUnusual
		}
		if kind == '{' {
			if err := t.name(); err != nil {
				return 0, err
			}
		}
		if err := t.scan(); err != nil {
			return 0, err
		}
	}
}

// name appends the next token of the JSON text, the name of an object's member, to tokens.
func (t *transcoder) name() error {
	quoted, err := t.dec.ReadValue()
	if err != nil {
		return errUnusual
	}
	end := int(t.dec.InputOffset())
	start := end - len(quoted)
	text := t.source[start+1 : end-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		at := len(t.names)
		if t.names, err = jsontext.AppendUnquote(t.names, quoted); err != nil {
			return errUnusual
		}
		text = t.names[at:]
	}
	t.tokens = append(t.tokens, token{kind: '"', start: start, end: end, text: text, next: len(t.tokens) + 1})
	return nil
}

// value appends the msgpack of the token with index at to dst. It returns the index of the token after the value.
func (t *transcoder) value(dst []byte, at int) (out []byte, next int, err error) {
	tok := t.tokens[at]
	switch tok.kind {
	case '{':
		out, err = t.object(dst, at)
	case '[':
		out, err = t.array(dst, at)
	case '"':
		var text []byte
		if text, err = t.content(at); err == nil {
			out = msgpack.AppendText(dst, text)
		}
	case '0':
		out, err = appendNumber(dst, t.source[tok.start:tok.end])
	case 't', 'f':
		out = msgpack.AppendBool(dst, tok.kind == 't')
	default:
		out = append(dst, msgpack.TypeNil)
	}
	return out, tok.next, err
}

// sorted pushes the name tokens of an object, in sorted order, to members. It returns the index of the first one.
func (t *transcoder) sorted(at int) (start int, err error) {
	start = len(t.members)
	name := at + 1
	for range t.tokens[at].n {
		t.members = append(t.members, name)
		name = t.tokens[name+1].next
	}
	if at == 0 {
		for name := t.added; name < len(t.tokens); name += 2 {
			t.members = append(t.members, name)
		}
	}
	members := t.members[start:]
	slices.SortFunc(members, func(a, b int) int { return bytes.Compare(t.tokens[a].text, t.tokens[b].text) })
	for i := 1; i < len(members); i++ {
		if bytes.Equal(t.tokens[members[i]].text, t.tokens[members[i-1]].text) {
			return start, errUnusual
		}
	}
	return start, nil
}

func (t *transcoder) object(dst []byte, at int) ([]byte, error) {
	start, err := t.sorted(at)
	if err != nil {
		return dst, err
	}
	end := len(t.members)
	dst = msgpack.AppendMapLen(dst, end-start)
	for i := start; i < end; i++ {
		member := t.members[i]
		if dst, _, err = t.value(msgpack.AppendText(dst, t.tokens[member].text), member+1); err != nil {
			return dst, err
		}
	}
	t.members = t.members[:start]
	return dst, nil
}

func (t *transcoder) array(dst []byte, at int) ([]byte, error) {
	dst = msgpack.AppendArrayLen(dst, t.tokens[at].n)
	element := at + 1
	for range t.tokens[at].n {
		var err error
		if dst, element, err = t.value(dst, element); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// tree decodes the JSON of one object as unstructured content, or returns false if it needs client-go's decoder.
func tree(source []byte, texts *textTables) (v any, ok bool) {
	err := transcode(source, func(t *transcoder) error {
		return t.tree(0, &v, texts)
	})
	return v, err == nil
}

func (t *transcoder) tree(at int, v *any, texts *textTables) (err error) {
	switch tok := t.tokens[at]; tok.kind {
	case '{':
		m := make(map[string]any, tok.n)
		*v = m
		member := at + 1
		for range tok.n {
			var value any
			if err := t.tree(member+1, &value, texts); err != nil {
				return err
			}
			m[texts.names.name(t.tokens[member].text)] = value
			member = t.tokens[member+1].next
		}
		if len(m) < tok.n {
			return errUnusual
		}
	case '[':
		list := make([]any, tok.n)
		*v = list
		element := at + 1
		for i := range list {
			if err := t.tree(element, &list[i], texts); err != nil {
				return err
			}
			element = t.tokens[element].next
		}
	case '"':
		var b []byte
		if b, err = t.content(at); err == nil {
			*v = texts.values.value(b)
		}
	default:
		return utiljson.Unmarshal(t.source[tok.start:tok.end], v)
	}
	return err
}

// content returns the content of a string token. The slice is valid until the next call.
func (t *transcoder) content(at int) ([]byte, error) {
	if text := t.tokens[at].text; text != nil {
		return text, nil
	}
	quoted := t.source[t.tokens[at].start:t.tokens[at].end]
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return text, nil
	}
	var err error
	if t.text, err = jsontext.AppendUnquote(t.text[:0], quoted); err != nil {
		return nil, errUnusual
	}
	return t.text, nil
}

// appendNumber chooses int64 or float64 by apimachinery's rule: an int64 needs an integer without a point.
func appendNumber(dst, text []byte) ([]byte, error) {
	if !bytes.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return msgpack.AppendInt(dst, n), nil
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return dst, errUnusual
	}
	return msgpack.AppendFloat(dst, f), nil
}

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
