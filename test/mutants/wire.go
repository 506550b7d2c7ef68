package main

// wireMutants are deliberate faults in the handling of undecoded objects: in packages reflector/wire and codec, and in
// the store.
var wireMutants = []mutant{
	{
		name:   "wire/escape-at-a-border",
		breaks: "A backslash at the border of two reads escapes the next byte.",
		file:   "reflector/wire/json.go",
		old: `				s.isEscaped = true
`,
		new: `				s.isEscaped = false
`,
		test: "TestBordersOfReads",
	},
	{
		name:   "wire/length-behind-the-list",
		breaks: "A length that reaches behind its message is malformed.",
		file:   "reflector/wire/protobuf.go",
		old:    `n > 1<<62 || m.left >= 0 && int64(n) > m.left {`,
		new:    `n > 1<<62 {`,
		test:   "TestGuardsOfLists",
	},
	{
		name:   "wire/negative-length",
		breaks: "A length beyond an int64 is malformed.",
		file:   "reflector/wire/protobuf.go",
		old:    `n > 1<<62 || m.left >= 0`,
		new:    `m.left >= 0`,
		test:   "TestGuardsOfLists",
	},
	{
		name:   "wire/number-behind-the-list",
		breaks: "A varint that reaches behind its message is malformed.",
		file:   "reflector/wire/protobuf.go",
		old: `		if m.left == 0 {
			return 0, errProtobuf
		}
`,
		new:  ``,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/cut-in-a-number",
		breaks: "A list that breaks off within a varint is no list.",
		file:   "reflector/wire/protobuf.go",
		old: `			if shift > 0 {
				err = cutOff(err)
			}
`,
		new:  ``,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/no-value",
		breaks: "A member without a value is malformed JSON.",
		file:   "reflector/wire/json.go",
		old:    `len(value) == 0 {`,
		new:    `v == nil {`,
		test:   "TestGuardsOfLists",
	},
	{
		name:   "wire/value-of-any-size",
		breaks: "A JSON value of more than 64 MiB is refused.",
		file:   "reflector/wire/json.go",
		old:    `	if len(v.buf) > maxObject {`,
		new:    `	if v == nil {`,
		test:   "TestLargeAnswers",
	},
	{
		name:   "wire/frame-of-any-size",
		breaks: "A frame of more than 64 MiB is refused before memory is allocated for it.",
		file:   "reflector/wire/protobuf.go",
		old:    `	if n > maxObject {`,
		new:    `	if m == nil {`,
		test:   "TestLargeAnswers",
	},
	{
		name:   "wire/malformed-object-looks-cut-off",
		breaks: "An object that arrives as a whole and cannot be decoded is no answer that broke off.",
		file:   "reflector/wire/json.go",
		old:    `func opaque(err error) error { return errors.New(err.Error()) }`,
		new:    `func opaque(err error) error { return err }`,
		test:   "TestGuardsOfWatches",
	},
	{
		name:   "wire/cut-off-list",
		breaks: "A list that breaks off is no list.",
		file:   "reflector/wire/json.go",
		old: `		case err != nil:
			return cutOff(err)
		case c == end:
`,
		new: `		case err != nil:
			return nil
		case c == end:
`,
		test: "TestCutOff",
	},
	{
		name:   "wire/status-is-a-list",
		breaks: "A Status instead of a list is its error.",
		file:   "reflector/wire/protobuf.go",
		old: `	case l.Kind == "Status":
		return apierrors.FromObject(&status)
`,
		new: `	case l.Kind == "":
		return apierrors.FromObject(&status)
`,
		test: "TestRefused",
	},
	{
		name:   "wire/early-items-have-no-kind",
		breaks: "Items that come before the kind of their list get it.",
		file:   "reflector/wire/json.go",
		old: `errors.Is(errs[n], codec.ErrNoKind) && t.list.Kind == ""; t.waits {
`,
		new: `errs[n] == codec.ErrNoKind && len(t.all) == 0; t.waits {
`,
		test: "TestItemsWaitForTheirKind",
	},
	{
		name:   "wire/stop-leaves-the-answer",
		breaks: "Stop ends a watch without a reader.",
		file:   "reflector/wire/wire.go",
		old: `		case w.events <- ev:
		case <-w.ctx.Done():
			return
		}
	}
	w.end(err)
`,
		new: `		case w.events <- ev:
		}
	}
	w.end(err)
`,
		test: "TestStop",
	},
	{
		name:   "wire/list-held-whole",
		breaks: "A list of custom resources is not buffered until its kind arrives.",
		file:   "reflector/wire/json.go",
		old: `t.size < textsSize || t.waits && t.list.Kind == "" {
`,
		new: `t.size < textsSize || t.list.Kind == "" {
`,
		test: "TestListIsNotHeld",
	},
	{
		name:   "wire/undecodable-event-unknown",
		breaks: "An event about an object that a list has had undecodable does not end the watch.",
		file:   "reflector/wire/wire.go",
		old: `	return known || len(k.keys) >= maxKnown
`,
		new: `	return !known && len(k.keys) >= maxKnown
`,
		test: "TestUndecodableEvent",
	},
	{
		name:   "wire/undecodable-event-taken",
		breaks: "An event whose object cannot be decoded, and that no list has had so, ends the watch.",
		file:   "reflector/wire/wire.go",
		old: `		if err = w.refuses(ev); err != nil {
`,
		new: `		if err = w.refuses(ev); err != nil && ev.Type == "" {
`,
		test: "TestUndecodableEvent",
	},
	{
		name:   "wire/undecodable-fails-the-list",
		breaks: "An object that cannot be decoded does not keep the others of a list.",
		file:   "codec/sent.go",
		old: `	if err != nil && !errors.Is(err, ErrNoKind) {
`,
		new: `	if err != nil && errors.Is(err, ErrNoKind) {
`,
		test: "TestOneUndecodableOfAList",
		dir:  "reflector/wire",
	},
	{
		name:   "wire/every-error-is-a-cut",
		breaks: "Only the error of a list that broke off makes pages smaller.",
		file:   "reflector/wire/wire.go",
		old: `	case b.broken, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errEmpty):
`,
		new: `	case err != nil:
`,
		test: "TestOnlyACutOffListIsCutOff",
	},
	{
		name:   "wire/cbor-for-ever",
		breaks: "A server that answers in CBOR is asked for JSON.",
		file:   "reflector/wire/wire.go",
		old: `	if w.asksForJSON.Load() {
`,
		new: `	if w == nil {
`,
		test: "TestCBOR",
	},
	{
		name:   "codec/panic-of-a-type",
		breaks: "A Go type whose methods panic makes an object undecodable, and does not end the process.",
		file:   "codec/errors.go",
		old: `	return base.Try(fmt.Sprintf("unmarshalling a *%s", t), fn)
`,
		new: `	if t == nil {
		return base.Try(fmt.Sprint(t), fn)
	}
	return fn()
`,
		test: "TestSentUndecodable",
	},
	{
		name:   "codec/field-not-named",
		breaks: "The error of decoding names the field.",
		file:   "codec/errors.go",
		old: `	if len(path) == 0 {
`,
		new: `	if len(path) > 0 {
`,
		test: "TestUndecodableNamesTheField",
	},
	{
		name:   "codec/msgpack-refuses-messages",
		breaks: "A collection in msgpack stores the messages of a server that sends protobuf.",
		file:   "codec/sent.go",
		old: `		return c.protobuf()
`,
		new: `		return nil
`,
		test: "TestMsgpackReadsMessages",
	},
	{
		name:   "codec/name-twice",
		breaks: "JSON with a duplicate name in an object is read as the decoder reads it.",
		file:   "codec/json.go",
		old: `		if bytes.Equal(t.tokens[members[i]].text, t.tokens[members[i-1]].text) {
`,
		new: `		if len(members) < 0 {
`,
		test: "TestJSON",
	},
	{
		name:   "codec/large-integers",
		breaks: "An integer that is too large for an int64 is a float64, as apimachinery's decoder has it.",
		file:   "codec/json.go",
		old: `		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return msgpack.AppendInt(dst, n), nil
		}
`,
		new: `		n, _ := strconv.ParseInt(string(text), 10, 64)
		return msgpack.AppendInt(dst, n), nil
`,
		test: "TestJSON",
	},
	{
		name:   "store/undecodable-stored",
		breaks: "An awaited object that cannot be decoded is left out.",
		file:   "store/internal/engine/encode.go",
		old: `			errs[n] = refuse(entry.LeftOutCodec, err)
`,
		new:  ``,
		test: "TestUndecodable",
		dir:  "store",
	},
	{
		name:   "store/undecoded-delete-forgotten",
		breaks: "A durable handler receives the last state of a deleted object that arrived undecoded.",
		file:   "store/internal/engine/encode.go",
		old: `	if x.Payload != nil {
		return nil
	}
`,
		new:  ``,
		test: "TestCursorReadsTheLastState",
		dir:  "store",
	},
	{
		name:   "store/undecoded-handed-out",
		breaks: "Readers get decoded objects.",
		file:   "store/internal/engine/write.go",
		old: `	return Decoded(x.Key, x.Left())
`,
		new: `	return x.Left(), nil
`,
		test: "TestUndecodable",
		dir:  "store",
	},
	{
		name:   "wire/another-kind",
		breaks: "An object of another kind than the watched is a stray.",
		file:   "reflector/gate.go",
		old: `ok && u.OtherKind() {
`,
		new: `ok && u == nil {
`,
		test: "TestCheckType",
	},
	{
		name:   "codec/field-of-a-newer-type",
		breaks: "Fields that an older server does not know stay absent when its protobuf is read.",
		file:   "codec/message.go",
		old: `		case reflect.Pointer, reflect.Slice, reflect.Map:
			if !strings.Contains(options, "omit") {
`,
		new: `		default:
			if name != "" {
`,
		test: "TestFieldsOfANewerType",
	},
	{
		name:   "codec/nil-list",
		breaks: "A list that JSON always has is null if the message has none.",
		file:   "codec/message.go",
		old: `			object[name] = nil
`,
		new: `			_ = name
`,
		test: "TestProtobufOfUnstructured",
	},
	{
		name:   "codec/omits-elsewhere",
		breaks: "Only the managedFields of metadata are left out.",
		file:   "codec/peek.go",
		old: `	if !r.Enter("metadata") || !r.IsMap() {
`,
		new: `	if !r.Enter("spec") || !r.IsMap() {
`,
		test: "TestOmitManagedFields",
	},
	{
		name:   "sync/newer-server",
		breaks: "A newer server is asked for JSON.",
		file:   "informer/internal/attributes/encoding.go",
		old:    `wire = wireFor(version.MajorMinor(v.Major(), v.Minor()))`,
		new:    `wire = wireFor(version.MajorMinor(0, v.Minor()))`,
		test:   "TestEncoding",
	},
	{
		name:   "informer/hidden-fields",
		breaks: "Contents in protobuf of a server that turns out to be newer are listed again.",
		file:   "informer/internal/attributes/attributes.go",
		old:    `return newer(a.want.Wire) && !newer(wire) && wire != wireJSON`,
		new:    `return newer(a.want.Wire) && newer(wire) && wire != wireJSON`,
		test:   "TestNewerServer",
		dir:    "informer",
	},
	{
		name:   "informer/other-types-list",
		breaks: "Objects that are stored as the server sent them are not listed for other Go types.",
		file:   "informer/internal/attributes/attributes.go",
		old:    `a.have.Schema != a.want.Schema && a.have.Schema != a.o.Sent:`,
		new:    `a.have.Schema != a.want.Schema:`,
		test:   "TestNewerTypes",
		dir:    "informer",
	},
	{
		name:   "store/typed-payload",
		breaks: "Objects that pass through a Go type are listed again for other types.",
		file:   "store/internal/engine/replace_page.go",
		old:    `r.typed = r.typed || it.Typed && (it.needed || r.o.Rewrite)`,
		new:    `r.typed = false`,
		test:   "TestTypedPayloads",
		dir:    "informer",
	},
	{
		name:   "serve/stored-json",
		breaks: "Stored JSON is answered with fields that the Go type lacks.",
		file:   "serve/render.go",
		old:    `if !r.known || r.metadata || e.Encoding != codec.EncodingProtobuf {`,
		new:    `if !r.known || r.metadata {`,
		test:   "TestNewerServer",
	},
	{
		name:   "informer/reader-meets-the-unreadable",
		breaks: "An object that only a reader cannot read is listed anew.",
		file:   "informer/commit.go",
		old: `		p.listUnreadable()
	}
	p.indexer`,
		new: `		_ = err
	}
	p.indexer`,
		test: "TestProtobufOfAnotherProgram",
	},
	{
		name:   "reflector/bad-event-for-ever",
		breaks: "An event that cannot be decoded ends in a list.",
		file:   "reflector/watch.go",
		old: `	again := s.watching.badAt == rv
`,
		new: `	again := s.watching.badAt == rv+"0"
`,
		test: "TestUndecodableEvent",
		dir:  "informer",
	},
	{
		name:   "store/unreadable-stays",
		breaks: "A stored state that cannot be decoded is deleted by a list without a decodable one.",
		file:   "store/internal/engine/replace_page.go",
		old: `unreported || it.unreadable {
`,
		new: `unreported {
`,
		test: "TestReaderFindsUndecodableObject",
		dir:  "informer",
	},
	{
		name:   "informer/undecodable-trusted",
		breaks: "After an object could not be decoded, each object is decoded on arrival.",
		file:   "informer/list.go",
		old: `return i.decodes() || i.health.distrustsNow() }
`,
		new: `return i.decodes() }
`,
		test: "TestReaderFindsUndecodableObject",
	},
}
