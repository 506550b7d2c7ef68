// Package base has small helpers that several packages of the library share.
//
//   - [Guest] and [Try] call user functions that may ignore the end of their context, or panic. A Guest runs the
//     function on a goroutine and abandons it if it has not returned within Guest.Wait after its context has ended. A
//     panic is handled as in client-go: it is logged and the process ends; with utilruntime.ReallyCrash off, the call
//     fails with [ErrPanicked] instead. Try is for short functions, such as a key function, and returns a panic as an
//     error.
//   - [Mutex] stops waiting when a context ends, and [Sleep] does too. [Parallel] shares work between goroutines.
//   - [PrintableKey] and [PrintableText] make untrusted text safe to print.
//   - [RealPath], [HoldersOf], [CheckOwner] and [WriteFile] are about files: their real names, the processes that have
//     them open, whether another user may have placed them, and writing them whole. Root and the user of this process
//     are trusted owners; on systems without Unix owners every user is.
package base
