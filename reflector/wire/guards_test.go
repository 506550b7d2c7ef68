package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/wire"
)

func field(number protowire.Number, value string) string {
	return string(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), []byte(value)))
}

func varint(n uint64) string { return string(protowire.AppendVarint(nil, n)) }

func typeMeta(kind string) string { return field(1, field(1, "g/v1")+field(2, kind)) }

func thingList(fields string) string { return "k8s\x00" + typeMeta("ThingList") + field(2, fields) }

func listBody(t *testing.T, body io.Reader) (*wire.List, error) {
	t.Helper()
	a := &answer{}
	lw := a.listWatch(t, &metav1.PartialObjectMetadata{})
	a.stream = body
	list, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.(*wire.List), nil
}

// TestGuardsOfLists checks each check of an answer to a list request. Without that check, each malformed answer here
// would count as a list, or as an answer that broke off. Issue 37.
func TestGuardsOfLists(t *testing.T) {
	const (
		malformedJSON     = "malformed JSON"
		malformedProtobuf = "malformed protobuf"
		cutOff            = "reading response body"
		noFormat          = "neither protobuf nor JSON"
	)
	item := field(2, field(1, field(1, "a"))) // an object with a name
	kind := "k8s\x00" + typeMeta("ThingList")
	ofType := func(more string) string { return "k8s\x00" + field(1, field(2, "ThingList")+more) + field(2, item) }
	for name, tt := range map[string]struct{ body, want string }{
		"JSON: no colon":                 {`{"kind";"ThingList","items":[]}`, malformedJSON},
		"JSON: no comma":                 {`{"kind":"ThingList";"items":[]}`, malformedJSON},
		"JSON: no brace":                 {` ["kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: no value":                 {`{"x":,"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a text in a number":       {`{"x":1"e","kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: an object in a number":    {`{"x":1{},"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a space for a brace":      {` "kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a space for a colon":      {`{"kind" "ThingList","items":[]}`, malformedJSON},
		"JSON: a space for a comma":      {`{"kind":"ThingList" "items":[]}`, malformedJSON},
		"JSON: a comma first":            {`{,"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a comma last":             {`{"kind":"ThingList","items":[],}`, malformedJSON},
		"JSON: a comma behind the items": {`{"kind":"ThingList","items":[{"metadata":{"name":"a"}},]}`, malformedJSON},
		"JSON: no bracket":               {`{"kind":"ThingList","items":{"metadata":{"name":"a"}}]}`, malformedJSON},
		"JSON: no items":                 {`{"kind":"ThingList","items":no}`, malformedJSON},
		"JSON: two texts":                {`{"x":"a""b","kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: two objects":              {`{"x":{}{},"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: two numbers":              {`{"x":1 2,"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: two numbers, a tab":       {"{\"x\":1\t2,\"kind\":\"ThingList\",\"items\":[]}", malformedJSON},
		"JSON: two numbers, a return":    {"{\"x\":1\r2,\"kind\":\"ThingList\",\"items\":[]}", malformedJSON},
		"JSON: two numbers, a line":      {"{\"x\":1\n2,\"kind\":\"ThingList\",\"items\":[]}", malformedJSON},
		"JSON: a colon in a number":      {`{"x":1:2,"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: two colons":               {`{"x"::"kind","kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a comma for a value":      {`{"x":,"kind","kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a bracket for a value":    {`{"x":],"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a kind that is no text":   {`{"kind":7,"items":[]}`, malformedJSON},
		"JSON: a name that is no text":   {`{7:7,"kind":"ThingList","items":[]}`, malformedJSON},
		"JSON: a code that is no number": {
			`{"kind":"Status","code":"x"}`, malformedJSON,
		},
		"JSON: cut off in a null":     {`{"kind":"ThingList","items":nul`, cutOff},
		"JSON: cut off in a number":   {`{"kind":"Status","code":4`, cutOff},
		"JSON: cut off after a name":  {`{"kind":"ThingList","items"`, cutOff},
		"JSON: cut off after a comma": {`{"kind":"ThingList",`, cutOff},

		"another magic":                {"kube", noFormat},
		"the number 0":                 {thingList("") + "\x02\x00", malformedProtobuf},
		"a negative length":            {kind + "\x12" + varint(1<<63) + item, malformedProtobuf},
		"a length behind the list":     {kind + "\x12\x03" + item, malformedProtobuf},
		"a length one behind the list": {kind + "\x12\x06" + item, malformedProtobuf},
		"a tag behind the list":        {kind + "\x12\x01\x92\x00\x00", malformedProtobuf},
		"a number behind the list":     {kind + "\x12\x03\x1d\x00\x00\x00\x00", malformedProtobuf},
		"a number of 11 bytes":         {thingList("\x18" + strings.Repeat("\x80", 10) + item), malformedProtobuf},
		"a status that is cut off":     {"k8s\x00" + typeMeta("Status") + "\x12\x09", cutOff},
		"a group":                      {thingList("\x1b\x1c"), malformedProtobuf},
		"a status of nothing": {
			"k8s\x00" + typeMeta("Status") + field(2, "\xff"), malformedProtobuf,
		},
		"metadata of nothing":        {thingList(field(1, "\xff")), malformedProtobuf},
		"encoded once more":          {kind + field(3, "gzip") + field(2, item), noFormat},
		"encoded in protobuf":        {kind + field(3, runtime.ContentTypeProtobuf) + field(2, item), noFormat},
		"of another content type":    {kind + field(4, "application/json") + field(2, item), noFormat},
		"a type of nothing":          {"k8s\x00" + field(1, "\xff") + field(2, item), malformedProtobuf},
		"a type with a number":       {ofType("\x18\x01"), malformedProtobuf},
		"a type with the number 0":   {ofType("\x18\x00"), malformedProtobuf},
		"a type that is cut":         {ofType("\x0a\x05a"), malformedProtobuf},
		"an object":                  {"k8s\x00" + typeMeta("Thing") + field(2, ""), "something else than a list"},
		"cut off before a number":    {thingList(item) + "\x18", cutOff},
		"cut off in a tag":           {thingList(item) + "\x8a", cutOff},
		"cut off before a length":    {thingList(item) + "\x4a", cutOff},
		"cut off before a value":     {"k8s\x00\x0a\x05", cutOff},
		"cut off in a skipped one":   {thingList(item) + "\x4a\x05ab", cutOff},
		"cut off in a fixed number":  {thingList(item) + "\x4d\x05", cutOff},
		"cut off before an item":     {kind + "\x12\x09", cutOff},
		"an item that is no message": {thingList(field(2, "\x0a\x05a")), "reading the list: "},
		"cut off in the magic":       {"k8", cutOff},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := listBody(t, strings.NewReader(tt.body))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("list %+v, error %v, want %q", list, err, tt.want)
			}
		})
	}
	for name, body := range map[string]string{
		"protobuf": thingList(item),
		"protobuf with fields of other types": thingList("\x18"+varint(1<<63)+
			"\x1d\x00\x00\x00\x00\x19\x00\x00\x00\x00\x00\x00\x00\x00"+field(9, "x")+item) +
			field(4, runtime.ContentTypeProtobuf) + field(9, "y"),
		"JSON with all spaces": "\t{\r\"x\"\t:\r1\t,\n\"kind\"\r:\t\"ThingList\"\r,\t\"items\" :\r[\t" +
			"{\"metadata\":{\"name\":\"a\"}}\r]\t}\r",
		"JSON after a return": "\r{\"kind\":\"ThingList\",\"items\":[{\"metadata\":{\"name\":\"a\"}}]}",
		"JSON after a line":   "\n{\"kind\":\"ThingList\",\"items\":[{\"metadata\":{\"name\":\"a\"}}]}",
		"JSON":                `{"x":null,"kind":"ThingList","items":[{"metadata":{"name":"a"}}]}`,
	} {
		if list, err := listBody(t, strings.NewReader(body)); err != nil || len(list.Items) != 1 {
			t.Errorf("%s: list %+v, error %v", name, list, err)
		}
	}
}

// TestLargeAnswers checks that values of more than 64 MiB are refused: in protobuf before memory is allocated.
func TestLargeAnswers(t *testing.T) {
	const tooLarge = "more than 64 MiB"
	size := 65 << 20
	long := io.MultiReader(strings.NewReader(`{"x":"`), io.LimitReader(spaces{}, int64(size)),
		strings.NewReader(`","kind":"ThingList","items":[]}`))
	if _, err := listBody(t, long); err == nil || !strings.Contains(err.Error(), tooLarge) {
		t.Errorf("JSON: %v", err)
	}
	inner := "\x12" + varint(uint64(size))
	body := "k8s\x00" + typeMeta("ThingList") + "\x12" + varint(uint64(size+len(inner))) + inner
	if _, err := listBody(t, strings.NewReader(body)); err == nil || !strings.Contains(err.Error(), tooLarge) {
		t.Errorf("protobuf: %v", err)
	}
	f := formats["protobuf"]
	obj := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
	}
	frames := binary.BigEndian.AppendUint32(f.frame(f.encode(t, obj), watch.Added), uint32(size))
	events := watchBody(t, frames)
	if len(events) != 2 || events[0].Type != watch.Added || !strings.Contains(message(events[1]), tooLarge) {
		t.Errorf("events %+v", events)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func watchBody(t *testing.T, body []byte) []watch.Event {
	t.Helper()
	a := &answer{body: body}
	w, err := a.listWatch(t, &metav1.PartialObjectMetadata{}).WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all(w)
}

func message(ev watch.Event) string {
	if status, ok := ev.Object.(*metav1.Status); ok && ev.Type == watch.Error {
		return status.Message
	}
	return ""
}

// TestGuardsOfWatches checks each check of an event. Without that check, each malformed event here would be delivered.
func TestGuardsOfWatches(t *testing.T) {
	frame := func(msg string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(msg)))) + msg
	}
	event := func(kind, unknown string) string { return frame(field(1, kind) + field(2, field(1, unknown))) }
	thing := "k8s\x00" + typeMeta("Thing")
	for name, tt := range map[string]struct{ body, want string }{
		"JSON: no colon":                 {`{"type";"ADDED","object":{"metadata":{}}}`, "malformed JSON"},
		"JSON: no value":                 {`{"x":,"type":"ADDED","object":{"metadata":{}}}`, "malformed JSON"},
		"JSON: no value for the object":  {`{"type":"ADDED","object":}`, "malformed JSON"},
		"JSON: a type that is no text":   {`{"type":5,"object":{"metadata":{}}}`, "malformed JSON"},
		"JSON: an error that is none":    {`{"type":"ERROR","object":[]}`, "malformed JSON"},
		"JSON: no object":                {`{"type":"ADDED"}`, "without an object"},
		"a frame that is no message":     {frame("\x08"), "malformed protobuf"},
		"an object that is no message":   {frame(field(1, "ADDED") + field(2, "\x08")), "malformed protobuf"},
		"a tag that is none":             {frame("\xff"), "malformed protobuf"},
		"no magic":                       {event("ADDED", "kube"+typeMeta("Thing")), "without an object"},
		"content that is no message":     {event("ADDED", thing+"\x08"), "malformed protobuf"},
		"a type of nothing":              {event("ADDED", "k8s\x00"+field(1, "\xff")), "malformed protobuf"},
		"a type that is no message":      {event("ADDED", "k8s\x00"+field(1, "\x08")), "malformed protobuf"},
		"an error that is none":          {event("ERROR", thing+field(2, "\xff")), "malformed protobuf"},
		"an object that cannot be named": {event("ADDED", thing+field(2, "\xff")), "unable to decode"},
	} {
		t.Run(name, func(t *testing.T) {
			events := watchBody(t, []byte(tt.body))
			if len(events) != 1 || !strings.Contains(message(events[0]), tt.want) {
				t.Errorf("events %+v, want an error with %q", events, tt.want)
			}
		})
	}
	// Fields of other numbers and types are skipped.
	other := "\x08\x05" + field(9, "x") // the first field is a number
	events := watchBody(t, []byte(frame(field(1, "ADDED")+field(2, field(1, thing+field(2, field(1, field(1, "a")))+
		other)+other)+other)))
	if len(events) != 1 || events[0].Type != watch.Added || events[0].Object.(*entry.Undecoded).Key != "a" {
		t.Errorf("events %+v", events)
	}
	for name, body := range map[string]string{
		"in a length": "\x00\x00", "in a frame": "\x00\x00\x00\x09\x0a", "in JSON": `{"type":"ADDED",`, "in a name": `{"ty`,
	} {
		if events := watchBody(t, []byte(body)); len(events) > 0 {
			t.Errorf("cut off %s: events %+v", name, events)
		}
	}
}

// TestBordersOfReads checks that the position where two reads split an answer makes no difference.
func TestBordersOfReads(t *testing.T) {
	texts := []string{`a\"b`, `\\`, `\\\"`, `\u0022`, `]}`, `\\\\`}
	var items, want []string
	for n, text := range texts {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"n%d","annotations":{"x":"%s","%s":"y"}}}`, n, text, text))
		want = append(want, fmt.Sprintf("n%d", n))
	}
	body := `{"x":"\"","kind":"ThingList","items":[` + strings.Join(items, " , ") + `],"y":[true,{"z":-1.5e3}],"w":null}`
	whole, err := listBody(t, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var borders []io.Reader
	for n := range len(body) {
		borders = append(borders, io.MultiReader(strings.NewReader(body[:n]), strings.NewReader(body[n:])))
	}
	for n, r := range append(borders, iotest.OneByteReader(strings.NewReader(body)),
		iotest.DataErrReader(strings.NewReader(body))) {
		list, err := listBody(t, r)
		if err != nil || len(list.Items) != len(want) {
			t.Fatalf("%d: list %+v, error %v", n, list, err)
		}
		for i, obj := range list.Items {
			got, expected := obj.(*entry.Undecoded), whole.Items[i].(*entry.Undecoded)
			if got.Key != want[i] || !bytes.Equal(got.Payload, expected.Payload) {
				t.Fatalf("%d: item %d is %s, %q", n, i, got.Key, got.Payload)
			}
		}
	}
}

// TestManyUndecodable checks that no event ends the watch after a list with more undecodable objects than the
// ListerWatcher remembers, since each ended watch would cause another list.
func TestManyUndecodable(t *testing.T) {
	var items []string
	for n := range 10_001 {
		items = append(items, pod(fmt.Sprintf("p%d", n), `"high"`))
	}
	a := &answer{contentType: runtime.ContentTypeJSON, body: podList(items...)}
	lw := a.listWatch(t, &corev1.Pod{})
	if _, err := lw.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p0", "p10000"} {
		a.body = formats["JSON"].frame([]byte(pod(name, `"high"`)), watch.Modified)
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if events := all(w); len(events) != 1 || events[0].Type != watch.Modified {
			t.Errorf("%s: events %+v", name, events)
		}
	}
	// One object becomes decodable, so fewer keys than the limit are remembered. The last object never was remembered.
	a.body = append(formats["JSON"].frame([]byte(pod("p0", "1")), watch.Modified),
		formats["JSON"].frame([]byte(pod("p10000", `"high"`)), watch.Modified)...)
	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if events := all(w); len(events) != 2 || !strings.Contains(message(events[1]), "n/p10000") {
		t.Errorf("after one was repaired: events %+v", events)
	}
}
