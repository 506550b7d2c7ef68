// Package file has the commands for a file as a whole: larder status, wait, check and compact; keygen, which makes
// encryption keys; and the hidden chown, which prepares the directory of the file.
package file
