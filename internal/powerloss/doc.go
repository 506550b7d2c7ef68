// Package powerloss generates the states in which a power loss can leave a disk, for tests of programs that promise to
// survive a power loss.
//
// Start with a Recorder: it runs processes, traces their system calls and keeps an op log: the changes of the files
// below one directory. A Disk replays the op log up to any op, and Image writes one of the states in which a power loss
// at that moment may leave the files. The caller opens these files and compares them with the program's promises.
//
// # What may survive
//
//   - A write to a file survives if an fsync or fdatasync of the file has returned that began after the write had
//     returned. The same holds for a change of a name and an fsync of its directory.
//   - Any other write or truncation survives or not. A write may also survive in part: any subset of its sectors of 512
//     bytes. A file that the write extends may have grown by less, or not at all.
//   - Any other change of the names in a directory (create, link, rename, unlink, mkdir) survives or not. A rename is
//     one change: it never leaves both names, or neither.
//   - Files and directories are independent: a sync of a file does not sync its name.
//
// These are the guarantees of POSIX; a journaling file system gives more. Bytes that were never written are zero.
//
// # Recorded system calls
//
// A Recorder knows the system calls of Go programs. Any other call that could change a file ends Recorder.Run with an
// error, because an image without that call would be wrong. A process announces its progress, such as a commit that has
// returned, by a Marker, whose texts are also ops. There is a Recorder for linux/amd64 and linux/arm64.
//
// All code is in test files, because only tests of this package use it.
package powerloss
