// Package file has the commands for a file as a whole: larder status, wait, check and compact, keygen, which makes its
// keys, and the hidden chown, which prepares its directory.
package file
