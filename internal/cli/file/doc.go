// Package file has the commands that are about a file as a whole: larder status, check and compact, and keygen and the
// hidden chown, which prepare one.
package file
