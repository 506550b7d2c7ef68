package serve

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
)

type media string

const (
	mediaJSON     media = "application/json"
	mediaYAML     media = "application/yaml"
	mediaProtobuf media = "application/vnd.kubernetes.protobuf"
)

// form is how a response represents objects: whole, as metadata, or as the rows of a Table.
type form int

const (
	whole form = iota
	metadata
	table
)

type format struct {
	media media
	form  form
	// version is the version of meta.k8s.io, v1 or v1beta1, in which Tables and metadata are sent. list is true if the
	// client accepts PartialObjectMetadataList.
	version string
	list    bool
	// include selects how much of its object each row of a Table contains: nothing, the metadata or the whole object.
	include metav1.IncludeObjectPolicy
}

// encode returns an object as a complete response body. Only protobuf uses apiVersion and kind.
func (m media) encode(obj any, apiVersion, kind string) ([]byte, error) {
	switch m {
	case mediaProtobuf:
		raw, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
		return appendEnvelope(nil, apiVersion, kind, raw), err
	case mediaYAML:
		return yaml.Marshal(obj)
	}
	data, err := json.Marshal(obj)
	return append(data, '\n'), err
}

func (f format) stream() string {
	if f.media == mediaProtobuf {
		return string(mediaProtobuf) + ";stream=watch"
	}
	return string(f.media)
}

// bodies and streams are the media types of responses and of watches. The 406 error lists them.
var (
	bodies  = []string{string(mediaJSON), string(mediaYAML), string(mediaProtobuf)}
	streams = []string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}
)

type negotiation struct {
	// known is true if client-go has the Go type of the kind, so that protobuf can be served.
	known bool
	// newer is true if the server is newer than client-go: JSON has fields that protobuf would lose.
	newer    bool
	list     bool
	watching bool
}

// negotiate returns the first format in the Accept header that can be served, or JSON without the header.
func negotiate(r *http.Request, a negotiation) (format, error) {
	clauses := goautoneg.ParseAccept(r.Header.Get("Accept"))
	if strings.TrimSpace(r.Header.Get("Accept")) == "" {
		return format{media: mediaJSON}, nil
	}
	protobuf := a.known && !(a.newer && slices.ContainsFunc(clauses, wholeJSON))
	for _, clause := range clauses {
		f, ok := formatOf(clause)
		switch {
		case !ok, f.media == mediaYAML && (a.watching || clause.Params["stream"] != ""),
			f.media == mediaProtobuf && (f.form == table || f.form == whole && !protobuf):
			continue
		}
		return f, a.fits(f)
	}
	types := bodies
	if a.watching {
		types = streams
	}
	return format{}, statusError(http.StatusNotAcceptable, "only the following media types are accepted: %s",
		strings.Join(types, ", "))
}

// routed rejects the Accept headers that kube-apiserver rejects for built-in kinds before it looks for the resource.
func routed(r *http.Request, list bool) error {
	accept := r.Header.Get("Accept")
	if strings.TrimSpace(accept) == "" || slices.ContainsFunc(goautoneg.ParseAccept(accept), routable) {
		return nil
	}
	types := bodies
	if list {
		types = append(slices.Clip(bodies), streams...)
	}
	err := statusError(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: %s",
		strings.Join(types, ", "))
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return err
}

// routable reports whether kube-apiserver's router accepts a clause of an Accept header for built-in kinds.
func routable(c goautoneg.Accept) bool {
	return c.Type == "*" && c.SubType == "*" || slices.Contains(bodies, c.Type+"/"+c.SubType)
}

func wholeJSON(c goautoneg.Accept) bool {
	f, ok := formatOf(c)
	return ok && f.media == mediaJSON && f.form == whole
}

// fits rejects PartialObjectMetadataList for a get, and PartialObjectMetadata for a list.
func (a negotiation) fits(f format) error {
	switch {
	case f.form != metadata || a.watching && !f.list:
	case !f.list && a.list:
		return statusError(http.StatusNotAcceptable,
			"you requested PartialObjectMetadata, but the requested object is a list")
	case f.list && !a.list:
		return statusError(http.StatusNotAcceptable,
			"you requested PartialObjectMetadataList, but the requested object is not a list")
	}
	return nil
}

func formatOf(clause goautoneg.Accept) (f format, ok bool) {
	switch {
	case clause.Type == "*" && clause.SubType == "*", clause.Type == "application" && clause.SubType == "*",
		clause.Type+"/"+clause.SubType == string(mediaJSON):
		f.media = mediaJSON
	case clause.Type+"/"+clause.SubType == string(mediaYAML):
		f.media = mediaYAML
	case clause.Type+"/"+clause.SubType == string(mediaProtobuf):
		f.media = mediaProtobuf
	default:
		return f, false
	}
	as, group, version := clause.Params["as"], clause.Params["g"], clause.Params["v"]
	if as == "" {
		return f, group == "" && version == ""
	}
	if group != metav1.GroupName || version != "v1" && version != "v1beta1" {
		return f, false
	}
	f.version = version
	switch as {
	case "Table":
		f.form = table
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		f.form, f.list = metadata, as == "PartialObjectMetadataList"
	default:
		return f, false
	}
	return f, true
}

func (f *format) includes(policy string) error {
	if f.form != table {
		return nil
	}
	switch f.include = metav1.IncludeObjectPolicy(policy); f.include {
	case "":
		f.include = metav1.IncludeMetadata
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: includeObject: "+
			"Invalid value: %q: must be 'Metadata', 'Object', 'None', or empty", policy))
	}
	return nil
}

// The functions below assemble the protobuf messages around objects (runtime.Unknown, WatchEvent, lists) from the
// objects' stored bytes, so that objects need not be decoded.

// protobufMagic begins every protobuf message of Kubernetes that is not part of another message.
const protobufMagic = "k8s\x00"

func appendField(dst []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), value)
}

// appendFieldHead appends the tag and length of a length-delimited field, without its value.
func appendFieldHead(dst []byte, number protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.BytesType), uint64(length))
}

func sizeField(number protowire.Number, length int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(length)
}

// appendEnvelope appends an encoded object in an envelope, that is, as a runtime.Unknown with the magic number.
func appendEnvelope(dst []byte, apiVersion, kind string, raw []byte) []byte {
	dst = append(appendEnvelopeHead(dst, apiVersion, kind, len(raw)), raw...)
	return append(dst, envelopeTail...)
}

// envelopeTail encodes the fields of a runtime.Unknown after the object: contentEncoding and contentType, both empty.
const envelopeTail = "\x1a\x00\x22\x00"

func appendEnvelopeHead(dst []byte, apiVersion, kind string, length int) []byte {
	dst = append(dst, protobufMagic...)
	typeMeta := appendField(nil, 1, []byte(apiVersion))
	typeMeta = appendField(typeMeta, 2, []byte(kind))
	dst = appendField(dst, 1, typeMeta)
	return appendFieldHead(dst, 2, length)
}

// appendWatchFrame appends a metav1.WatchEvent with its length prefix. object is the event's object as a
// runtime.Unknown with the magic number.
func appendWatchFrame(dst []byte, eventType string, object []byte) []byte {
	extension := sizeField(1, len(object))
	dst = binary.BigEndian.AppendUint32(dst, uint32(sizeField(1, len(eventType))+sizeField(2, extension)))
	dst = appendField(dst, 1, []byte(eventType))
	dst = appendFieldHead(dst, 2, extension)
	return appendField(dst, 1, object)
}

// metadataOf splits the protobuf message of an object into its ObjectMeta, which is field 1 in every built-in kind, and
// the bytes before and behind that field.
func metadataOf(message []byte) (before, metadata, behind []byte, err error) {
	for rest := message; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, nil, nil, fmt.Errorf("the message is malformed: %w", entry.ErrDamaged)
		}
		if number == 1 && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			metadata, _ = protowire.ConsumeBytes(rest[tag:])
			return message[:len(message)-len(rest)], metadata, rest[n:], nil
		}
		rest = rest[n:]
	}
	return message, nil, nil, nil
}

const resourceVersionField = 6

// withResourceVersion returns a copy of an object's protobuf message with another resourceVersion. It appends the field
// resourceVersion to the metadata, since a decoder uses the last occurrence of a field.
func withResourceVersion(message []byte, rv string) ([]byte, error) {
	before, metadata, behind, err := metadataOf(message)
	if err != nil {
		return nil, err
	}
	more := sizeField(resourceVersionField, len(rv))
	out := append(make([]byte, 0, len(message)+more+8), before...)
	out = append(appendFieldHead(out, 1, len(metadata)+more), metadata...)
	return append(appendField(out, resourceVersionField, []byte(rv)), behind...), nil
}
