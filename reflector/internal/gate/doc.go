// Package gate decides what of a server's objects a reflector delivers: those of the Go type, the scope (Admit) and the
// shard that were asked for. The others are counted, logged at a bounded rate, and said to who asked (Options.Say).
//
// An object of the wrong type or scope is a stray: from the first on, to the end of a list without any, there is no
// resourceVersion to resume from (Resumable). An object of another shard is none: its server sends everything. A list
// of nothing else is a list of something else (Judge). One goroutine, the reflector's, owns a Gate.
package gate
