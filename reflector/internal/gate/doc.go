// Package gate decides which of a server's objects a reflector delivers, by the Go type, the scope (Admit) and the
// shard that were requested. Other objects are counted, logged at a bounded rate, and reported to Options.OnDrop.
//
// An object of the wrong type or scope is a stray: from the first stray to the end of a list without strays there is no
// resourceVersion to resume from (Resumable). An object of another shard is not a stray: its server sends every shard.
// A list with nothing but strays is a list of another collection (Judge). One goroutine, the reflector's, owns a Gate.
package gate
