package attributes

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// typesVersion is the version of k8s.io/api in go.mod, and so of the Go types in this program.
const typesVersion = "1.37"

// These are values of entry.Attributes.Wire. If the server is newer than the types, its version follows wireJSON.
const (
	wireProtobuf = codec.EncodingProtobuf
	wireJSON     = "JSON"
)

// Encoding is the encoding that requests ask for. It is decided at every connect: protobuf, unless the server is newer
// than the Go types in this program. Protobuf carries no field names, so the fields of a newer server would be stored
// and not shown. Encoding is safe for concurrent use.
type Encoding struct {
	version func(ctx context.Context) (string, error)
	wire    atomic.Pointer[string]
}

// NewEncoding returns an Encoding that reads the server's version with version. If version is nil, it is always JSON.
func NewEncoding(version func(ctx context.Context) (string, error)) *Encoding {
	e := &Encoding{version: Bounded("Options.ServerVersion", version)}
	if wire := ""; version == nil {
		wire = wireJSON
		e.wire.Store(&wire)
	}
	return e
}

// Accept returns the Accept header of requests.
func (e *Encoding) Accept() string {
	if e.now() == wireProtobuf {
		return runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return runtime.ContentTypeJSON
}

// String returns the encoding, with the reason if it is JSON by choice; "" before the first connect.
func (e *Encoding) String() string {
	if e == nil || e.wire.Load() == nil {
		return ""
	}
	switch wire := e.now(); {
	case wire == "":
		return wireJSON + ": the server's version is not known"
	case newer(wire):
		return fmt.Sprintf("%s: the server, %s, is newer than the types in this program, %s", wireJSON,
			strings.TrimPrefix(wire, wireJSON+" "), typesVersion)
	default:
		return wire
	}
}

// now returns the value for entry.Attributes.Wire; "" if the server's version is not known.
func (e *Encoding) now() string {
	if wire := e.wire.Load(); wire != nil {
		return *wire
	}
	return ""
}

// decide chooses the encoding of requests. server is the server's version, "" if unknown, and stored the
// entry.Attributes.Wire of the stored contents. JSON that was chosen for a newer server stays: during an upgrade of a
// control plane, connections reach old and new servers.
func (e *Encoding) decide(server, stored string) string {
	if e.version == nil {
		return wireJSON
	}
	wire := ""
	if v, err := version.ParseGeneric(server); err == nil {
		wire = wireFor(version.MajorMinor(v.Major(), v.Minor()))
	}
	if v, err := version.ParseGeneric(strings.TrimPrefix(stored, wireJSON+" ")); err == nil && newer(stored) {
		if before := wireFor(v); newer(before) && !laterThan(wire, v) {
			wire = before
		}
	}
	e.wire.Store(&wire)
	return wire
}

func wireFor(server *version.Version) string {
	if version.MustParseGeneric(typesVersion).LessThan(server) {
		return wireJSON + " " + server.String()
	}
	return wireProtobuf
}

// newer reports whether, by wire, the server is newer than the types of the program that stored wire.
func newer(wire string) bool { return entry.Attributes{Wire: wire}.NewerServer() }

func laterThan(wire string, v *version.Version) bool {
	named, err := version.ParseGeneric(strings.TrimPrefix(wire, wireJSON+" "))
	return err == nil && v.LessThan(named)
}
