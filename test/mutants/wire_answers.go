package main

// wireAnswerMutants are deliberate faults in the checks of JSON answers to lists and watches, in package
// reflector/wire.
var wireAnswerMutants = []mutant{
	{
		name:   "wire/cbor-asked-twice",
		breaks: "A server that only speaks CBOR gets one request for a list.",
		file:   "reflector/wire/wire.go",
		old:    `	return w.asksForJSON.CompareAndSwap(false, true), err`,
		new: `	w.asksForJSON.Store(true)
	return true, err`,
		test: "TestServerThatOnlySpeaksCBOR",
	},
	{
		name:   "wire/watch-in-cbor",
		breaks: "A watch that is answered in CBOR has the next one ask for JSON.",
		file:   "reflector/wire/wire.go",
		old: `	_, err = w.of.notes(err)
`,
		new:  "",
		test: "TestWatchInCBOR",
	},
	{
		name:   "wire/body-left-open",
		breaks: "The body of a list is closed.",
		file:   "reflector/wire/wire.go",
		old: `	defer func() { _ = answer.Close() }()
`,
		new:  "",
		test: "TestListIsReadToItsEnd",
	},
	{
		name:   "wire/body-left-unread",
		breaks: "The body of a list is read to its end, so that the connection can be used again.",
		file:   "reflector/wire/wire.go",
		old: `		_, err = io.Copy(io.Discard, r)
`,
		new:  "",
		test: "TestListIsReadToItsEnd",
	},
	{
		name:   "wire/broken-behind-the-list",
		breaks: "An answer that breaks off behind the list is an error.",
		file:   "reflector/wire/wire.go",
		old: `		_, err = io.Copy(io.Discard, r)
`,
		new: `		_, _ = io.Copy(io.Discard, r)
`,
		test: "TestBrokenLists",
	},
	{
		name:   "wire/broken-link-is-malformed",
		breaks: "A list whose connection fails counts as interrupted.",
		file:   "reflector/wire/wire.go",
		old:    `	case b.broken, errors.Is`,
		new:    `	case errors.Is`,
		test:   "TestBrokenLists",
	},
	{
		name:   "wire/end-is-a-cut",
		breaks: "The end of a malformed list is no broken connection.",
		file:   "reflector/wire/wire.go",
		old:    `b.broken || err != nil && !errors.Is(err, io.EOF)`,
		new:    `b.broken || err != nil`,
		test:   "TestMalformedAndEnded",
	},
	{
		name:   "wire/status-reworded",
		breaks: "The error of a Status is the server's.",
		file:   "reflector/wire/wire.go",
		old: `	case errors.As(err, &answered):
`,
		new: `	case answered != nil:
`,
		test: "TestStatusIsItsOwnError",
	},
	{
		name:   "wire/first-byte-is-empty",
		breaks: "A connection that fails before the first byte is no empty answer.",
		file:   "reflector/wire/wire.go",
		old: `	case err != nil:
		return false, err
	}
	switch first`,
		new: `	case err != nil:
		return false, errEmpty
	}
	switch first`,
		test: "TestBrokenLists",
	},
	{
		name:   "wire/refused-watch",
		breaks: "The error of a watch request is returned.",
		file:   "reflector/wire/wire.go",
		old: `		cancel()
		return nil, err
`,
		new: `		cancel()
		return nil, nil
`,
		test: "TestRefusedRequests",
	},
	{
		name:   "wire/ended-watch-left-open",
		breaks: "The body of a watch that has ended is closed.",
		file:   "reflector/wire/wire.go",
		old: `	defer w.Stop()
`,
		new:  "",
		test: "TestEndsOfWatches",
	},
	{
		name:   "wire/reset-is-an-error",
		breaks: "A connection that was reset just ends the watch.",
		file:   "reflector/wire/wire.go",
		old:    `	case utilnet.IsProbableEOF(err), utilnet.IsTimeout(err):`,
		new:    `	case utilnet.IsTimeout(err):`,
		test:   "TestEndsOfWatches",
	},
	{
		name:   "wire/time-out-is-an-error",
		breaks: "A time-out of the connection just ends the watch.",
		file:   "reflector/wire/wire.go",
		old:    `	case utilnet.IsProbableEOF(err), utilnet.IsTimeout(err):`,
		new:    `	case utilnet.IsProbableEOF(err):`,
		test:   "TestEndsOfWatches",
	},
	{
		name:   "wire/cut-off-is-an-error",
		breaks: "A watch that breaks off within an event just ends.",
		file:   "reflector/wire/wire.go",
		old:    `	case errors.Is(err, io.ErrUnexpectedEOF):`,
		new:    `	case false:`,
		test:   "TestEndsOfWatches",
	},
	{
		name:   "wire/error-for-nobody",
		breaks: "Stop ends a watch whose ERROR event has no reader.",
		file:   "reflector/wire/wire.go",
		old: `Object: status}:
	case <-w.ctx.Done():
	}`,
		new: `Object: status}:
	}`,
		test: "TestStopBeforeTheError",
	},
	{
		name:   "wire/repaired-is-known",
		breaks: "An object that an event delivers decodable does not count as undecodable any more.",
		file:   "reflector/wire/wire.go",
		old: `		k.noteLocked(u)
		return true`,
		new:  `		return true`,
		test: "TestRepairedByAnEvent",
	},
	{
		name:   "wire/known-without-bound",
		breaks: "At most 10,000 undecodable objects are remembered.",
		file:   "reflector/wire/wire.go",
		old:    `	case len(k.keys) < maxKnown:`,
		new:    `	case len(k.keys) < 2*maxKnown:`,
		test:   "TestManyUndecodable",
	},
	{
		name:   "wire/read-behind-an-error",
		breaks: "Nothing is read behind an error of the body.",
		file:   "reflector/wire/json.go",
		old: `	if v.err != nil {
		return v.err
	}
	if v.at`,
		new:  `	if v.at`,
		test: "TestNothingIsReadBehindAnError",
	},
	{
		name:   "wire/half-the-size",
		breaks: "A value of 63 MiB is read.",
		file:   "reflector/wire/json.go",
		old:    `	if len(v.buf) > maxObject {`,
		new:    `	if len(v.buf) > maxObject/2 {`,
		test:   "TestLargestValue",
	},
	{
		name:   "wire/no-returns",
		breaks: "A carriage return is a space.",
		file:   "reflector/wire/json.go",
		old: `			case ' ', '\t', '\r', '\n':
			default:`,
		new: `			case ' ', '\t', '\n':
			default:`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/two-objects",
		breaks: "Two objects in a row are no value.",
		file:   "reflector/wire/json.go",
		old: `			if s.depth--; s.depth == 0 {
				return i + 1
			}
`,
		new: `			s.depth--
`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/two-texts",
		breaks: "Two texts in a row are no value.",
		file:   "reflector/wire/json.go",
		old: `			if s.depth == 0 {
				return i + 1
			}
			continue`,
		new:  `			continue`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/two-numbers",
		breaks: "Two numbers in a row are no value.",
		file:   "reflector/wire/json.go",
		old: `		case ',', ':', ' ', '\t', '\r', '\n':
			if s.depth`,
		new: `		case ',', ':', ' ', '\r', '\n':
			if s.depth`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/colon-in-a-number",
		breaks: "A colon ends a number.",
		file:   "reflector/wire/json.go",
		old: `		case ',', ':', ' ', '\t', '\r', '\n':
			if s.depth`,
		new: `		case ',', ' ', '\t', '\r', '\n':
			if s.depth`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/comma-for-a-value",
		breaks: "A comma is no value.",
		file:   "reflector/wire/json.go",
		old: `		case ',', ':', ' ', '\t', '\r', '\n':
			if s.depth == 0 {`,
		new: `		case ',', ':', ' ', '\t', '\r', '\n':
			if s.depth == 0 && s.bare {`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/no-brace",
		breaks: "A list in JSON begins with a brace.",
		file:   "reflector/wire/json.go",
		old: `	if err := v.take('{'); err != nil {
		return err
	}
`,
		new: `	_ = v.take('{')
`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/no-colon",
		breaks: "A name and its value have a colon between them.",
		file:   "reflector/wire/json.go",
		old: `		if err := v.take(':'); err != nil {
			return err
		}
`,
		new: `		_ = v.take(':')
`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/fails-late",
		breaks: "A list fails with the first item that is no object.",
		file:   "reflector/wire/json.go",
		old: `		return nil
	}
	return t.make()
}`,
		new: `		return nil
	}
	_ = t.make()
	return nil
}`,
		test: "TestListFailsEarly",
	},
	{
		name:   "wire/waits-for-no-kind",
		breaks: "An item that is no object does not wait for the kind of the list.",
		file:   "reflector/wire/json.go",
		old:    `errors.Is(errs[n], codec.ErrNoKind) && t.list.Kind == ""; t.waits`,
		new:    `errs[n] != nil && t.list.Kind == ""; t.waits`,
		test:   "TestListFailsEarly",
	},
	{
		name:   "wire/items-without-a-kind",
		breaks: "A list whose kind does not imply that of its items is refused.",
		file:   "reflector/wire/json.go",
		old:    `errors.Is(errs[n], codec.ErrNoKind) && t.list.Kind == ""; t.waits`,
		new:    `errors.Is(errs[n], codec.ErrNoKind); t.waits`,
		test:   "TestItemsWithoutAKind",
	},
	{
		name:   "wire/end-looks-cut-off",
		breaks: "The end of a watch in JSON is no event that broke off.",
		file:   "reflector/wire/json.go",
		old: `	if _, err := v.peek(); err != nil {
		return watch.Event{}, err
	}
	var ev`,
		new:  `	var ev`,
		test: "TestLogOfTheEnd",
	},
	{
		name:   "wire/event-in-the-buffer",
		breaks: "An event in JSON has a payload of its own.",
		file:   "reflector/wire/json.go",
		old: `			text = bytes.Clone(object)
`,
		new: `			text = object
`,
		test: "TestBordersOfEvents",
	},
	{
		name:   "wire/no-value-in-an-event",
		breaks: "A member of an event without a value is malformed JSON.",
		file:   "reflector/wire/json.go",
		old: `		_, err := v.next()
		return err
	})
	if err != nil {
		return ev`,
		new: `		_, _ = v.next()
		return nil
	})
	if err != nil {
		return ev`,
		test: "TestGuardsOfWatches",
	},
	{
		name:   "wire/bookmark-undecoded",
		breaks: "A bookmark is decoded.",
		file:   "reflector/wire/json.go",
		old: `	if t == watch.Bookmark {
`,
		new: `	if t == "" {
`,
		test: "TestBookmarks",
	},
	{
		name:   "wire/bad-bookmark",
		breaks: "A bookmark that cannot be decoded is an error.",
		file:   "reflector/wire/json.go",
		old: `err = u.Object(); err != nil {
			return watch.Event{}, opaque(err)
		}`,
		new: `err = u.Object(); err != nil {
			obj = u
		}`,
		test: "TestBookmarks",
	},
	{
		name:   "wire/bad-bookmark-looks-cut-off",
		breaks: "A bookmark that cannot be decoded is no event that broke off.",
		file:   "reflector/wire/json.go",
		old: `err = u.Object(); err != nil {
			return watch.Event{}, opaque(err)
		}`,
		new: `err = u.Object(); err != nil {
			return watch.Event{}, err
		}`,
		test: "TestBookmarks",
	},
}
