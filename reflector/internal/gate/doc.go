// Package gate decides what of a server's objects a reflector delivers: those of the Go type, the scope (Admit) and the
// shard that were requested. The others are counted, logged at a bounded rate, and reported by Options.Say.
//
// An object of the wrong type or scope is a stray: from the first stray to the end of a list without strays there is no
// resourceVersion to resume from (Resumable). An object of another shard is not a stray: its server sends everything. A
// list of strays only is a list of another collection (Judge). One goroutine, the reflector's, owns a Gate.
package gate
