// Package msgpack reads and writes the msgpack forms that Larder stores: what it writes is, byte for byte, what
// github.com/vmihailenco/msgpack/v5 makes of the same values in their shortest forms, and what it reads may come from
// anybody.
package msgpack
