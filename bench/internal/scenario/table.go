package scenario

import (
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
)

// What several scenarios and rows have in common.
var (
	everyKind = []string{"pods", "configmaps", "widgets"}
	pods      = []string{"pods"}

	all     = []string{subject.All}
	bounded = []string{subject.Bounded}
	none    = []string{subject.None}
	// lean are the residencies that do not hold all objects. Goals of RssAnon are for those: what All needs is reported.
	lean = []string{subject.Bounded, subject.None}
)

// What Larder is compared with besides client-go.
const (
	fileSize  = "the file's size"
	eachEvent = "committing each event"
	// secondAndCommit is the default of store.Options.CommitInterval, and a commit.
	secondAndCommit = "a second and the commit"
)

func received(goals ...Goal) Metric {
	return Metric{Key: "bytes", Title: "bytes received", Unit: Bytes, Goals: goals}
}

func rssAnon(goals ...Goal) Metric {
	return Metric{Key: "rss_anon", Title: "peak RssAnon", Unit: Bytes, Goals: goals}
}

var (
	rssFile = Metric{Key: "rss_file", Title: "peak of mapped pages", Unit: Bytes}
	told    = Metric{Key: "told", Title: "calls of the handler", Unit: Count, Against: "updates made"}
	durable = Metric{
		Key: "durable", Title: "the last update, from handler to disk", Unit: Seconds, Against: secondAndCommit,
		Goals: []Goal{{Limit: 1.0, Text: "at most a second and the commit"}},
	}
)

// All are the scenarios, in the order in which they are run and reported.
func All() []Scenario {
	return append(append(starts(), relist, reads), updates()...)
}

// starts are those in which an informer is started, with a file or without.
func starts() []Scenario {
	return []Scenario{
		{
			Name: "restart", Title: "restart, nothing changed, no handler", Kinds: everyKind, Stored: true, Run: runRestart,
			Subjects: func(kind load.Kind) []subject.Spec {
				return append(larders(subject.Spec{Policy: informer.Disk, Dynamic: kind.Example == nil}), typed(kind)...)
			},
			Metrics: []Metric{
				received(Goal{Limit: 1.0 / 5000, Text: "at most 1/5,000"}),
				{
					Key: "synced_disk", Title: "time to HasSynced, policy Disk", Unit: Seconds,
					Goals: []Goal{{Limit: 1.0 / 50, Text: "at most 1/50"}},
				},
				{
					Key: "synced_resumed", Title: "time to HasSynced, policy Resumed", Unit: Seconds,
					Goals: []Goal{
						{Value: true, Limit: 2.5, Text: "at most 2.5 s"},
						// It is to hold whatever the number of objects: of the widgets there are ten times as many, and
						// they have no Go type.
						{Kind: "widgets", Dynamic: true, Value: true, Limit: 2.5, Text: "at most 2.5 s"},
					},
				},
				{
					Key: ServerCPU, Title: "API server CPU", Unit: Seconds,
					Goals: []Goal{{Limit: 1.0 / 50, Text: "at most 1/50"}},
				},
				{
					Key: "synced_disk", Title: "time to HasSynced, policy Disk", Unit: Seconds, Against: Fewer,
					Goals: []Goal{{Limit: 1.5, Text: "at most 1.5×"}},
				},
			},
		},
		{
			Name: "restart-handler", Title: "restart, nothing changed, with a handler", Kinds: everyKind, Stored: true,
			Subjects: typedAndDynamic, Run: runRestartHandler,
			Metrics: []Metric{
				{
					Key: "told", Title: "time to the last OnAdd", Unit: Seconds,
					Goals: []Goal{
						{Limit: 1.0 / 3, Text: "at most 1/3"},
						{Dynamic: true, Limit: 1.0 / 10, Text: "at most 1/10"},
					},
				},
				rssAnon(), rssFile,
			},
		},
		{
			Name: "restart-changed", Title: "restart, 1 % changed", Kinds: pods, Stored: true,
			Subjects: typed, Run: runRestartChanged,
			Changes: func(c Case) Changes { return Changes{Numbers: every(100, c.N), Rounds: 1, BeforeStart: true} },
			Metrics: []Metric{
				received(Goal{Limit: 1.0 / 50, Text: "at most 1/50"}),
				{Key: "seen", Title: "time to the last change", Unit: Seconds},
			},
		},
		{
			Name: "cold", Title: "cold start", Kinds: everyKind, Subjects: typedAndDynamic, Run: runCold,
			Metrics: []Metric{
				{
					Key: "synced", Title: "time to HasSynced", Unit: Seconds,
					Goals: []Goal{
						{Limit: 1.0, Text: "at most 1.0"},
						{Dynamic: true, Limit: 0.7, Text: "at most 0.7"},
					},
				},
				received(Goal{Limit: 1.0 / 20, Text: "at most 1/20"}),
				rssAnon(Goal{Residencies: lean, Limit: 1.0 / 8, Text: "at most 1/8"}),
				rssFile,
			},
		},
	}
}

// relist: an informer that runs loses its connection; meanwhile one object in a hundred changes, and at last another,
// and the server restarts, so that it answers the watch with 410.
var relist = Scenario{
	Name: "relist", Title: "relist after 410, 1 % changed", Kinds: pods, Stored: true,
	Subjects: typed, Run: runRelist,
	Changes: func(c Case) Changes {
		return Changes{Numbers: append(every(100, c.N), c.N-1), Rounds: 1, LoseHistory: true}
	},
	Metrics: []Metric{
		received(Goal{Limit: 1.0 / 20, Text: "at most 1/20"}),
		rssAnon(Goal{Residencies: lean, Limit: 1.0 / 8, Text: "at most 1/8"}),
		rssFile,
		{
			Key: "written", Title: "bytes written to disk", Unit: Bytes, Against: fileSize,
			Goals: []Goal{{Limit: 0.05, Text: "at most 5 %"}},
		},
		{Key: "io", Title: "bytes written to disk, by the kernel's account", Unit: Bytes, Against: fileSize},
	},
}

// reads: an informer that has synced and has nothing to do.
var reads = Scenario{
	Name: "reads", Title: "steady", Kinds: pods, Stored: true,
	Subjects: typedAndDynamic, Run: runReads, Raw: rawReads,
	Metrics: []Metric{
		{
			Key: "heap", Title: "live heap", Unit: Bytes,
			Goals: []Goal{
				{Residencies: bounded, Limit: 1.0 / 8, Text: "at most 1/8"},
				{Residencies: none, Limit: 1.0 / 25, Text: "at most 1/25"},
				{Dynamic: true, Residencies: none, Limit: 1.0 / 80, Text: "at most 1/80"},
			},
		},
		{
			Key: "hot_1", Title: "GetByKey hot, 1 goroutine", Unit: PerSecond,
			Goals: []Goal{{Residencies: all, AtLeast: true, Limit: 1.0, Text: "at least 1.0×"}},
		},
		{
			Key: "hot_8", Title: "GetByKey hot, 8 goroutines", Unit: PerSecond,
			Goals: []Goal{
				{Residencies: all, AtLeast: true, Limit: 1.5, Text: "at least 1.5×"},
				{Residencies: bounded, AtLeast: true, Limit: 0.8, Text: "at least 0.8×"},
			},
		},
		{
			Key: "by_index", Title: "ByIndex of a namespace", Unit: PerSecond,
			Goals: []Goal{{Residencies: all, AtLeast: true, Limit: 1.5, Text: "at least 1.5×"}},
		},
		{
			Key: "cold", Title: "GetByKey of any object", Unit: Microseconds, Against: "raw bbolt Get + decode",
			Goals: []Goal{{Residencies: none, Limit: 1.5, Text: "at most 1.5×"}},
		},
	},
}

const (
	// hotRounds is how often each hot object is changed.
	hotRounds = 10
	// latencySeconds is for how long latencies are measured, and latencyRate how many changes are made a second.
	latencySeconds, latencyRate = 10, 1000
	// Of the flash one object in a hundred is changed a hundred times in a minute: at 100,000 objects that is 1,667
	// changes a second. Of a short run the minute is a part, and the rate the same.
	flashRounds, flashSeconds = 100, 60.0
	// One case of the flash commits every ten seconds. Its results have the keys of the others with a suffix.
	seldomInterval = 10 * time.Second
	seldom         = "_seldom"
)

// updates are those in which a handler is told of changes, more than a real server can make.
func updates() []Scenario {
	return []Scenario{
		{
			Name: "updates-hot", Title: "updates of hot keys, one handler", Kinds: pods, Embedded: true, Stored: true,
			Subjects: updated, Run: runUpdates,
			Changes: func(c Case) Changes { return Changes{Numbers: every(10, c.N), Rounds: hotRounds} },
			Metrics: []Metric{
				// Calls of the handler; told says how many of the updates that were.
				{
					Key: "rate", Title: "rate", Unit: PerSecond,
					Goals: []Goal{{AtLeast: true, Limit: 0.9, Text: "at least 0.9×"}},
				},
				{
					Key: "rate", Title: "rate, by itself", Unit: PerSecond, Against: Nothing,
					Goals: []Goal{{AtLeast: true, Value: true, Limit: 50_000, Text: "at least 50,000/s"}},
				},
				told, durable,
			},
		},
		{
			// In no order, which is the worst for a tree on disk.
			Name: "updates-spread", Title: "updates of every key once, one handler", Kinds: pods, Embedded: true, Stored: true,
			Subjects: updated, Run: runUpdates, Raw: rawWrites,
			Changes: func(c Case) Changes { return Changes{Numbers: shuffled(c.N), Rounds: 1} },
			Metrics: []Metric{
				{Key: "rate", Title: "rate", Unit: PerSecond},
				told, durable,
				{Key: "rate", Title: "rate", Unit: PerSecond, Against: "raw bbolt, 4 MiB a transaction"},
			},
		},
		{
			Name: "latency", Title: "event to handler, 1,000 events/s", Kinds: pods, Embedded: true, Stored: true,
			Subjects: updated, Run: runLatency,
			Changes: func(c Case) Changes {
				count := max(int(latencySeconds*latencyRate*c.Effort), 1)
				return Changes{Numbers: shuffled(c.N)[:min(c.N, count)], Rounds: 1, PerSecond: latencyRate}
			},
			Metrics: []Metric{
				{Key: "p50", Title: "p50", Unit: Microseconds, Goals: []Goal{{Limit: 1.2, Text: "at most 1.2×"}}},
				{Key: "p99", Title: "p99", Unit: Microseconds, Goals: []Goal{{Limit: 1.5, Text: "at most 1.5×"}}},
			},
		},
		{
			Name: "flash", Title: "1 % of the objects, each updated 100 times a minute", Kinds: pods, Embedded: true,
			// The freelist of a file that much has happened to is long, and each commit writes it: committing each event
			// would pay for what the scenarios before have left, and Larder's few commits would look better than they
			// are. Both begin with the same file, which has no free pages.
			Stored: true, Compacted: true,
			Subjects: func(load.Kind) []subject.Spec {
				// What is written does not depend on what is kept in memory: one residency is enough.
				return []subject.Spec{
					{Library: subject.Larder, Residency: subject.All},
					{Library: subject.Larder, Residency: subject.All, CommitInterval: seldomInterval},
				}
			},
			Run: runFlash, Raw: commitEachEvent,
			Changes: func(c Case) Changes {
				hot := every(100, c.N)
				return Changes{
					Numbers: hot, Rounds: max(int(flashRounds*c.Effort), 1),
					PerSecond: float64(len(hot)) * flashRounds / flashSeconds,
				}
			},
			Metrics: append(
				flashMetrics("", "", Goal{Residencies: all, Limit: 1.0 / 5, Text: "at most 1/5"}),
				flashMetrics(seldom, ", a commit in ten seconds",
					Goal{Residencies: all, Limit: 1.0 / 20, Text: "at most 1/20"})...,
			),
		},
	}
}

func flashMetrics(suffix, how string, goal Goal) []Metric {
	const title, kernel = "bytes written for each event", ", by the kernel's account"
	return []Metric{
		{Key: "written" + suffix, Title: title + how, Unit: Bytes, Against: eachEvent, Goals: []Goal{goal}},
		{Key: "io" + suffix, Title: title + how + kernel, Unit: Bytes, Against: eachEvent},
	}
}
