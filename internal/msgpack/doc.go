// Package msgpack reads and writes the msgpack forms that Larder stores. It writes the same bytes as
// github.com/vmihailenco/msgpack/v5 does for the same values in their shortest forms. It may read untrusted data.
package msgpack
