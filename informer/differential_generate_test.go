package informer_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store"
)

// generator makes a random script of user and server actions from a seed.
type generator struct {
	*rand.Rand
	script
	value    int
	handlers int
	started  bool
}

func generate(seed uint64) script {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 3)), script: script{seed: seed}}
	g.config = g.newConfig()
	for range g.IntN(4) {
		g.write()
	}
	g.add(handlerSpec{kind: "full", how: "plain"})
	for range g.IntN(3) {
		g.addSome()
	}
	if g.one(8) {
		g.emit(op{do: "index", value: "early"})
	}
	g.emit(op{do: "run", racing: g.one(6)})
	g.started = true
	for range 8 + g.IntN(22) {
		g.step()
	}
	if g.one(3) {
		g.emit(op{do: "idle"})
	}
	g.emit(op{do: "stop", racing: g.one(4)})
	return g.script
}

func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) newConfig() config {
	c := config{
		resync:          pick(g, 0, 0, 0, 0, 0, 0, 500*time.Millisecond, 10*time.Second, 25*time.Second, time.Minute),
		transform:       pick(g, "none", "none", "mark", "fail"),
		oldErrorHandler: g.one(2), watchList: g.one(2), onDisk: g.one(6), pageSize: int64(pick(g, 2, 3, 500, 500)),
		index: g.one(3),
	}
	c.residency = pick(g, store.All, store.None)
	c.commitInterval = pick(g, 0, 0, time.Millisecond, -1)
	if g.one(5) {
		c.listDelay = pick(g, 300*time.Millisecond, 4*time.Second)
	}
	if g.one(5) {
		c.pageDelay = time.Second
	}
	c.contentType = pick(g, "", "", runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf, runtime.ContentTypeJSON)
	return c
}

func (g *generator) emit(o op) { g.ops = append(g.ops, o) }

func (g *generator) key() string { return pick(g, "a/1", "a/2", "a-b/1", "b/1", "b/2", "c") }

// next returns a new value for a pod. Some values make handlers panic or transforms fail.
func (g *generator) next() string {
	g.value++
	s := fmt.Sprint(g.value)
	switch {
	case g.one(10):
		s += panics
	case g.one(10):
		s += poison
	}
	return s
}

func (g *generator) write() { g.emit(op{do: "write", key: g.key(), value: g.next()}) }

func (g *generator) add(h handlerSpec) {
	g.handlers++
	g.emit(op{do: "add", spec: h, racing: g.started && g.one(6)})
}

func (g *generator) addSome() {
	h := handlerSpec{
		kind:   pick(g, "full", "full", "funcs", "pointer", "detailed", "adds", "filter"),
		how:    pick(g, "plain", "period", "options"),
		period: pick(g, 0, 0, 0, -time.Second, 400*time.Millisecond, 7*time.Second, 30*time.Second, 40*time.Second),
	}
	switch {
	case g.one(4):
		h.slow, h.how, h.period = g.key(), "period", 0
	case g.one(4):
		h.panics = true
	}
	g.add(h)
}

func (g *generator) step() {
	if g.config.onDisk && g.one(9) {
		g.emit(op{do: "restart", racing: g.one(4)})
		return
	}
	switch n := g.IntN(100); {
	case n < 24:
		g.write()
	case n < 32:
		g.emit(op{do: "delete", key: g.key()})
	case n < 36:
		g.emit(op{do: "recreate", key: g.key(), value: g.next()})
	case n < 40:
		g.emit(op{do: "burst", key: g.key(), value: g.next(), n: 2 + g.IntN(5)})
		g.value += 10
	case n < 52:
		g.emit(op{do: "wait", d: pick(g, 0, 0, 0, 100*time.Millisecond, time.Second, 2500*time.Millisecond, 11*time.Second,
			time.Minute, 7*time.Minute)})
	case n < 59:
		g.emit(op{do: "idle"})
	case n < 67:
		g.handler()
	case n < 90:
		g.server()
	default:
		g.rare()
	}
}

func (g *generator) handler() {
	switch which := g.IntN(g.handlers); g.IntN(5) {
	case 0, 1:
		if g.handlers < 6 {
			g.addSome()
		}
	case 2:
		g.emit(op{do: pick(g, "remove", "shut down"), n: which, racing: g.one(6)})
	case 3:
		g.emit(op{do: "block", n: which})
	case 4:
		g.emit(op{do: "unblock", n: which})
	}
}

func (g *generator) server() {
	how := faultNames[g.IntN(len(faultNames))]
	switch g.IntN(10) {
	case 0:
		g.emit(op{do: "bookmark"})
	case 1:
		g.emit(op{do: "other"})
	case 2, 3:
		g.emit(op{do: "close"})
	case 4:
		g.emit(op{do: "cut"})
	case 5:
		g.emit(op{do: "error event", how: pick(g, "410", "500", "429", "503")})
	case 6:
		g.emit(op{do: "fail", verb: pick(g, "list", "watch"), n: 1 + g.IntN(3), how: how})
		g.emit(op{do: pick(g, "close", "cut")})
	case 7:
		g.emit(op{do: "fail", verb: "watch", n: 1 + g.IntN(2), how: "short"})
		g.emit(op{do: "close"})
	case 8:
		// If every request got 410, no informer could list, and client-go's watch-list would retry without a pause.
		if how == "410" {
			how = "refused"
		}
		g.emit(op{do: "outage", how: how})
		for range g.IntN(4) {
			g.step()
		}
		g.emit(op{do: "outage over"})
	case 9:
		g.forget()
	}
}

// forget makes the servers drop old events, so that both informers list. Changes happen before and during those lists.
func (g *generator) forget() {
	g.emit(op{do: "outage", how: "refused"})
	for range g.IntN(4) {
		g.change()
	}
	g.emit(op{do: "compact"})
	g.emit(op{do: "outage over"})
	for range g.IntN(3) {
		g.emit(op{do: "wait", d: time.Duration(g.IntN(3000)) * time.Millisecond})
		g.change()
	}
}

func (g *generator) change() {
	switch g.IntN(3) {
	case 0:
		g.emit(op{do: "delete", key: g.key()})
	case 1:
		g.emit(op{do: "recreate", key: g.key(), value: g.next()})
	case 2:
		g.write()
	}
}

func (g *generator) rare() {
	switch g.IntN(6) {
	case 5:
		if g.one(4) {
			g.emit(op{do: "idle"})
			g.emit(op{do: "block", n: g.IntN(g.handlers)})
			g.emit(op{do: "flood", n: pick(g, 500, 900, mergeThreshold+400, 2*mergeThreshold)})
			g.emit(op{do: pick(g, "idle", "write"), key: "a/1", value: "2000"})
		}
	case 0:
		g.emit(op{do: "run again"})
	case 1:
		g.emit(op{do: "index", value: pick(g, "early", "late", "later")})
	case 2:
		g.emit(op{do: "odd", how: pick(g, "other type", "unknown event", "unknown delete")})
	case 3:
		g.emit(op{do: "set late"})
	case 4:
		g.emit(op{do: "remove foreign"})
	}
}
