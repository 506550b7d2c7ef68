package main

// connectionMutants are mutants of how few network connections many watches take.
var connectionMutants = []mutant{
	{
		name:   "limiter/all-connect-at-once",
		breaks: "While the link has no network connection, one client connects alone.",
		file:   "internal/limiter/limiter.go",
		old:    "	if l.connected || l.failures > 0 {",
		new:    "	if true {",
		test:   "TestOneConnectsFirst",
	},
	{
		name:   "limiter/ended-is-connected",
		breaks: "After watches ended before their time, one client connects alone.",
		file:   "internal/limiter/limiter.go",
		old:    "	if l.connects.taken == 0 {",
		new:    "	if false {",
		test:   "TestOneConnectsFirst",
	},
	{
		name:   "limiter/ended-while-others-connect",
		breaks: "A client that connects when a watch ends holds up no other.",
		file:   "internal/limiter/limiter.go",
		old:    "	if l.connects.taken == 0 {",
		new:    "	if true {",
		test:   "TestOneConnectsFirst",
	},
	{
		name:   "limiter/waits-for-ever-to-share",
		breaks: "A client that gets no connection holds up the others for ten seconds.",
		file:   "internal/limiter/slot.go",
		old:    "!t.l.connected && time.Since(t.begun) < patience:",
		new:    "!t.l.connected:",
		test:   "TestOneConnectsFirst",
	},
	{
		name:   "cluster/lanes-without-width",
		breaks: "A network connection has at most ninety requests.",
		file:   "internal/cli/cluster/lanes.go",
		old:    "		if l.requests < laneWidth {",
		new:    "		if l != nil {",
		test:   "TestLanes",
	},
	{
		name:   "cluster/lane-is-never-left",
		breaks: "A request that has ended makes room for another on its network connection.",
		file:   "internal/cli/cluster/lanes.go",
		old:    "	l.requests--\n",
		new:    "",
		test:   "TestLanes",
	},
	{
		name:   "listener/multiplex-for-crowds",
		breaks: "A crowd of strangers gets HTTP/1.1.",
		file:   "serve/access/listener/certificates.go",
		old:    "slices.Contains(hello.SupportedProtos, Multiplex) && allowed()",
		new:    "slices.Contains(hello.SupportedProtos, Multiplex)",
		test:   "TestMultiplex",
	},
	{
		name:   "cli/definition-read-again",
		breaks: "A restart does not read the definitions of custom resources again.",
		file:   "internal/cli/mirror/definition.go",
		old:    "		stored, lists = info.Resource.Definition, 0\n",
		new:    "		stored = info.Resource.Definition\n",
		test:   "TestDefinitionIsReadOnce",
	},
}
