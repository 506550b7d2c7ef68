// Package powerloss shows what a disk can hold after the power has failed, for tests of programs that promise to
// survive that.
//
// Start with a Recorder: it runs processes, traces their system calls and keeps them as a record of ops on the files
// beneath one directory. A Disk replays the record up to any op, and Image writes one of the disks that a power loss at
// that moment may leave. The caller opens what is in it and says whether it is what was promised.
//
// # What may survive
//
//   - What was written to a file is on the disk once an fsync or fdatasync of the file has returned that began after
//     the write had returned. So it is with the names in a directory.
//   - Every other write and truncation of a file survives, or does not, or a write survives in part: any of its sectors
//     of 512 bytes. A file that a write makes larger may have grown by less, or not at all.
//   - Every other change of the names in a directory (create, link, rename, unlink, mkdir) survives or does not. A
//     rename is one change: it never leaves both names, or none.
//   - Files and directories do not depend on each other: syncing a file does not sync its name.
//
// That is what POSIX allows, and more than a file system with a journal does. Bytes that were never written are zero.
//
// # What is recorded
//
// A Recorder knows the calls that Go programs make. One that could change a file and is none of them ends the recording
// with an error: an image would be wrong without it. A process tells what it has done, such as a commit that has
// returned, by a Marker: its texts are ops of the record too. There is a Recorder for linux/amd64 and linux/arm64.
//
// All of it is in test files: no program is made of it, and only the tests of this package use it.
package powerloss
