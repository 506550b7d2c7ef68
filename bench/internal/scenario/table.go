package scenario

import (
	"slices"
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
	"github.com/larder-dev/larder/informer"
)

// The residencies that goals name. Goals for RssAnon are for None; the memory of All is only reported.
const (
	all  = subject.All
	none = subject.None
)

// Names of references other than client-go.
const (
	fileSize  = "the file's size"
	eachEvent = "committing each event"
	// secondAndCommit is the default commit interval plus the duration of a commit.
	secondAndCommit = "a second and the commit"
)

var (
	everyKind = []string{"pods", "configmaps", "widgets"}
	pods      = []string{"pods"}
	rssAnon   = metric("rss_anon", "peak RssAnon", Bytes)
	rssFile   = metric("rss_file", "peak of mapped pages", Bytes)
	delivered = metric("told", "calls of the handler", Count).against("updates made")
	durable   = metric("durable", "the last update, from handler to disk", Seconds,
		atMost(1.0, secondAndCommit)).against(secondAndCommit)
)

const (
	hotRounds = 10
	// latencySeconds is the duration of the latency measurement, and latencyRate its number of changes a second.
	latencySeconds, latencyRate = 10, 1000
	// The scenario flash changes one object in a hundred, a hundred times in a minute: with 100,000 objects that is 1,667
	// changes a second. A short run lasts only a part of the minute, at the same rate.
	flashRounds, flashSeconds = 100, 60.0
	// One case of the scenario flash commits only every ten seconds. A suffix distinguishes the keys of its results.
	seldomInterval = 10 * time.Second
	seldom         = "_seldom"
)

// All returns the scenarios in the order of runs and reports.
func All() []Scenario { return slices.Concat(fromServer, updates) }

// fromServer has the scenarios in which an informer reaches the server's state by a start or a list, and reads from
// that state.
var fromServer = []Scenario{
	{
		Name: "restart", Title: "restart, nothing changed, no handler", Kinds: everyKind, Stored: true,
		Subjects: func(kind load.Kind) []subject.Spec {
			return append(larders(subject.Spec{Policy: informer.Disk, Dynamic: kind.Example == nil}), typed(kind)...)
		},
		Run: runRestart,
		Metrics: []Metric{
			metric("bytes", "bytes received", Bytes, atMost(1.0/5000, "1/5,000")),
			metric("synced_disk", "time to HasSynced, policy Disk", Seconds, atMost(1.0/50, "1/50")),
			metric("synced_resumed", "time to HasSynced, policy Resumed", Seconds,
				atMost(2.5, "2.5 s").value(),
				// The second goal is set on widgets, which are ten times as many as the pods and have no Go type: the same limit
				// must hold for any number of objects.
				atMost(2.5, "2.5 s").value().of("widgets").dynamic()),
			metric(ServerCPU, "API server CPU", Seconds, atMost(1.0/50, "1/50")),
			metric("synced_disk", "time to HasSynced, policy Disk", Seconds, atMost(1.5, "1.5×")).against(Fewer),
		},
	},
	{
		Name: "restart-handler", Title: "restart, nothing changed, with a handler", Kinds: everyKind, Stored: true,
		Subjects: typedAndDynamic, Run: runRestartHandler,
		Metrics: []Metric{
			metric("told", "time to the last OnAdd", Seconds,
				atMost(1.0/5, "1/5", all), atMost(1.0/8, "1/8", all).dynamic()).against(Faster),
			rssAnon, rssFile,
		},
	},
	{
		Name: "restart-changed", Title: "restart, 1 % changed", Kinds: pods, Stored: true,
		Changes:  func(c Case) Changes { return Changes{Numbers: every(100, c.N), Rounds: 1, BeforeStart: true} },
		Subjects: typed, Run: runRestartChanged,
		Metrics: []Metric{
			metric("bytes", "bytes received", Bytes, atMost(1.0/50, "1/50")),
			metric("seen", "time to the last change", Seconds),
		},
	},
	{
		Name: "cold", Title: "cold start", Kinds: everyKind,
		Subjects: typedAndDynamic, Run: runCold, Raw: rawList,
		Metrics: []Metric{
			metric("synced", "time to HasSynced", Seconds).against(Faster),
			metric("synced", "time to HasSynced", Seconds,
				atMost(1.2, "1.2×", none).of("configmaps"), atMost(1.5, "1.5×", none).of("widgets").dynamic()).against(theList),
			metric("bytes", "bytes received", Bytes, atMost(1.0/20, "1/20")),
			rssAnon.goal(atMost(1.0/16, "1/16", none), atMost(1.0/25, "1/25", none).dynamic()), rssFile,
		},
	},
	{
		Name: "cold-handler", Title: "cold start, with a handler", Kinds: pods,
		Subjects: typedAndDynamic, Run: runColdHandler, Raw: rawList,
		Metrics: []Metric{
			metric("told", "time to the last OnAdd", Seconds,
				atMost(0.9, "0.9×", all), atMost(0.6, "0.6×", all).dynamic()).against(Faster),
			metric("told", "time to the last OnAdd", Seconds,
				atMost(1.3, "1.3×", none), atMost(1.4, "1.4×", none).dynamic()).against(theList),
			rssAnon, rssFile,
		},
	},
	{
		Name: "cold-transform", Title: "cold start, a transform strips managedFields", Kinds: pods,
		Subjects: func(load.Kind) []subject.Spec {
			specs := []subject.Spec{{Library: subject.Larder, Residency: all}, {Library: subject.ClientGo},
				{Library: subject.ClientGoList}}
			for i := range specs {
				specs[i].Strip = true
			}
			return specs
		},
		Run:     runCold,
		Metrics: []Metric{metric("synced", "time to HasSynced", Seconds, atMost(1.0, "1.0×", all)).against(Faster)},
	},
	{
		Name: "sync", Title: "larder sync, cold start", Kinds: pods,
		Subjects: func(load.Kind) []subject.Spec {
			return []subject.Spec{{Library: subject.Larder, Residency: subject.None}}
		},
		Run: runSync, Raw: rawList,
		Metrics: []Metric{
			metric("synced", "time to live", Seconds, atMost(1.5, "1.5×", none)).against(theList),
			rssAnon.goal(atMost(100<<20, "100 MiB", none).value()).against(Nothing),
		},
	},
	{
		// A running informer loses its connection. Meanwhile one object in a hundred changes, and finally another one. The
		// server restarts and answers the watch with 410.
		Name: "relist", Title: "relist after 410, 1 % changed", Kinds: []string{"pods", "configmaps"}, Stored: true,
		Changes: func(c Case) Changes {
			return Changes{Numbers: append(every(100, c.N), c.N-1), Rounds: 1, LoseHistory: true}
		},
		Subjects: typed, Run: runRelist,
		Metrics: []Metric{
			metric("bytes", "bytes received", Bytes, atMost(1.0/20, "1/20"), atMost(1.0/20, "1/20").of("configmaps")),
			rssAnon.goal(atMost(1.0/8, "1/8", none)), rssFile,
			metric("written", "bytes written to disk", Bytes, atMost(0.05, "5 %")).against(fileSize),
			metric("io", "bytes written to disk, by the kernel's account", Bytes).against(fileSize),
		},
	},
	{
		// The informer of this scenario has synced and receives no changes.
		Name: "reads", Title: "steady", Kinds: pods, Stored: true,
		Subjects: typedAndDynamic, Run: runReads, Raw: rawReads,
		Metrics: []Metric{
			metric("heap", "live heap", Bytes, atMost(1.0/25, "1/25", none),
				atMost(1.0/80, "1/80", none).dynamic()),
			metric("hot_1", "GetByKey hot, 1 goroutine", PerSecond, atLeast(0.95, "0.95×", all)),
			metric("hot_8", "GetByKey hot, 8 goroutines", PerSecond, atLeast(0.95, "0.95×", all)),
			metric("by_index", "ByIndex of a namespace", PerSecond, atLeast(1.5, "1.5×", all)),
			metric("cold", "GetByKey of any object", Microseconds,
				atMost(1.5, "1.5×", none)).against("raw bbolt Get + decode"),
		},
	},
}

// updates has the scenarios in which a handler receives changes at a rate that a real server does not reach.
var updates = []Scenario{
	{
		Name: "updates-hot", Title: "updates of hot keys, one handler", Kinds: pods, Embedded: true, Stored: true,
		Changes:  func(c Case) Changes { return Changes{Numbers: every(10, c.N), Rounds: hotRounds} },
		Subjects: updated, Run: runUpdates,
		Metrics: []Metric{
			// The rate counts calls of the handler. The figure after the rate compares the number of calls with the number of
			// updates made.
			metric("rate", "rate", PerSecond, atLeast(1.0, "1.0×", all), atLeast(1.3, "1.3×", none)),
			delivered, durable,
		},
	},
	{
		Name: "updates-unheard", Title: "updates of hot keys, no handler", Kinds: pods, Embedded: true, Stored: true,
		Changes:  func(c Case) Changes { return Changes{Numbers: every(10, c.N), Rounds: hotRounds} },
		Subjects: func(load.Kind) []subject.Spec { return larders(subject.Spec{}) }, Run: runWithoutHandler,
		Metrics: []Metric{metric("rate", "rate", PerSecond, atLeast(50_000, "50,000/s").value()).against(Nothing)},
	},
	{
		// The order of updates is random, the worst case for a tree on disk.
		Name: "updates-spread", Title: "updates of every key once, one handler", Kinds: pods, Embedded: true, Stored: true,
		Changes:  func(c Case) Changes { return Changes{Numbers: shuffled(c.N), Rounds: 1} },
		Subjects: updated, Run: runUpdates, Raw: rawWrites,
		Metrics: []Metric{
			metric("rate", "rate", PerSecond),
			delivered, durable,
			metric("rate", "rate", PerSecond).against("raw bbolt, 4 MiB a transaction"),
		},
	},
	{
		Name: "latency", Title: "event to handler, 1,000 events/s", Kinds: pods, Embedded: true, Stored: true,
		Changes: func(c Case) Changes {
			count := max(int(latencySeconds*latencyRate*c.Effort), 1)
			return Changes{Numbers: shuffled(c.N)[:min(c.N, count)], Rounds: 1, PerSecond: latencyRate}
		},
		Subjects: updated, Run: runLatency,
		Metrics: []Metric{
			metric("p50", "p50", Microseconds, atMost(1.2, "1.2×")),
			metric("p99", "p99", Microseconds, atMost(1.5, "1.5×")),
		},
	},
	{
		Name: "flash", Title: "1 % of the objects, each updated 100 times a minute", Kinds: pods, Embedded: true,
		// The freelist grows with the changes of a file, and each commit writes it. Without compaction, the reference that
		// commits each event would pay for the changes of earlier scenarios, and Larder's few commits would look better than
		// they are. So both start with the same file without free pages.
		Stored: true, Compacted: true,
		Changes: func(c Case) Changes {
			hot := every(100, c.N)
			rounds := max(int(flashRounds*c.Effort), 1)
			return Changes{Numbers: hot, Rounds: rounds, PerSecond: float64(len(hot)) * flashRounds / flashSeconds}
		},
		Subjects: func(load.Kind) []subject.Spec {
			// The written bytes do not depend on the residency, so one residency is enough.
			return []subject.Spec{
				{Library: subject.Larder, Residency: all},
				{Library: subject.Larder, Residency: all, CommitInterval: seldomInterval},
			}
		},
		Run: runFlash, Raw: commitEachEvent,
		Metrics: append(flashMetrics("", "", atMost(1.0/5, "1/5", all)),
			flashMetrics(seldom, ", a commit in ten seconds", atMost(1.0/20, "1/20", all))...),
	},
}

func flashMetrics(suffix, how string, goal Goal) []Metric {
	title := "bytes written for each event" + how
	return []Metric{
		metric("written"+suffix, title, Bytes, goal).against(eachEvent),
		metric("io"+suffix, title+", by the kernel's account", Bytes).against(eachEvent),
	}
}
