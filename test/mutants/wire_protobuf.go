package main

// wireProtobufMutants are deliberate faults in checks of protobuf answers, and in the reaction to malformed answers.
var wireProtobufMutants = []mutant{
	{
		name:   "wire/length-one-behind-the-list",
		breaks: "A length that is one byte too long is malformed.",
		file:   "reflector/wire/protobuf.go",
		old:    `int64(n) > m.left {`,
		new:    `int64(n) > m.left+1 {`,
		test:   "TestGuardsOfLists",
	},
	{
		name:   "wire/number-without-end",
		breaks: "A varint of more than 10 bytes is malformed.",
		file:   "reflector/wire/protobuf.go",
		old: `	return 0, errProtobuf
}

func (m *message) skip`,
		new: `	return n, nil
}

func (m *message) skip`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/short-numbers",
		breaks: "A varint of 10 bytes is read.",
		file:   "reflector/wire/protobuf.go",
		old:    `shift < 64; shift += 7`,
		new:    `shift < 56; shift += 7`,
		test:   "TestGuardsOfLists",
	},
	{
		name:   "wire/largest-frame",
		breaks: "A value of 64 MiB is not too large.",
		file:   "reflector/wire/protobuf.go",
		old:    `	if n > maxObject {`,
		new:    `	if n >= maxObject {`,
		test:   "TestMemoryOfACutOffValue",
	},
	{
		name:   "wire/memory-by-the-length",
		breaks: "A value takes memory as it arrives, not by its length.",
		file:   "reflector/wire/protobuf.go",
		old:    `min(n-int64(len(b)), 1<<20)`,
		new:    `n-int64(len(b))`,
		test:   "TestMemoryOfACutOffValue",
	},
	{
		name:   "wire/cut-off-status",
		breaks: "A Status that breaks off is an answer that broke off.",
		file:   "reflector/wire/protobuf.go",
		old: `		b, err := outer.bytes(size)
		if err != nil {
			return err
		}
`,
		new: `		b, _ := outer.bytes(size)
`,
		test: "TestGuardsOfLists",
	},
	{
		name:   "wire/number-for-a-text",
		breaks: "A field of another type than that of the message is passed over.",
		file:   "reflector/wire/protobuf.go",
		old:    `wire != protowire.BytesType || number != a && number != b`,
		new:    `number != a && number != b`,
		test:   "TestGuardsOfWatches",
	},
	{
		name:   "wire/number-in-a-type",
		breaks: "A type with a field that is no text is malformed.",
		file:   "reflector/wire/protobuf.go",
		old:    `		if n < 0 || wire != protowire.BytesType {`,
		new:    `		if n < 0 || wire == protowire.EndGroupType {`,
		test:   "TestGuardsOfLists",
	},
	{
		name:   "wire/encoded-once-more",
		breaks: "Content with an encoding of its own is refused.",
		file:   "reflector/wire/protobuf.go",
		old:    `number == unknownContentEncoding || string(b)`,
		new:    `string(b)`,
		test:   "TestGuardsOfLists",
	},
}
