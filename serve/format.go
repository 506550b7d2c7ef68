package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/internal/apistatus"
)

// media is how answers are encoded.
type media string

const (
	mediaJSON     media = "application/json"
	mediaYAML     media = "application/yaml"
	mediaProtobuf media = "application/vnd.kubernetes.protobuf"
)

// form is what is answered of objects.
type form int

const (
	whole form = iota
	metadata
	table
)

// format is a media and a form.
type format struct {
	media media
	form  form
	// version is that of Tables and metadata: v1 or v1beta1; and list is set if the metadata of a list were asked for.
	version string
	list    bool
	// include is what the rows of a table carry of their objects.
	include metav1.IncludeObjectPolicy
}

// encode returns an object as a body of its own. Protobuf needs the kind.
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

// stream is the Content-Type of a watch.
func (f format) stream() string {
	if f.media == mediaProtobuf {
		return string(mediaProtobuf) + ";stream=watch"
	}
	return string(f.media)
}

// bodies are the types of answers, and streams those of watches, in the words of errors.
var (
	bodies  = []string{string(mediaJSON), string(mediaYAML), string(mediaProtobuf)}
	streams = []string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}
)

// asked is what of a request decides which format fits.
type asked struct {
	known    bool // client-go knows the kind, and so protobuf
	newer    bool // JSON shows more than protobuf
	list     bool
	watching bool
}

// negotiate picks the first format of the Accept header that can be answered.
func negotiate(r *http.Request, a asked) (format, error) {
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
	return format{}, apistatus.New(http.StatusNotAcceptable, "only the following media types are accepted: %s",
		strings.Join(types, ", "))
}

// routed refuses what kube-apiserver refuses of its own kinds before it looks for what is asked for.
func routed(r *http.Request, list bool) error {
	accept := r.Header.Get("Accept")
	if strings.TrimSpace(accept) == "" || slices.ContainsFunc(goautoneg.ParseAccept(accept), routable) {
		return nil
	}
	types := bodies
	if list {
		types = append(slices.Clip(bodies), streams...)
	}
	err := apistatus.New(http.StatusNotAcceptable, "406: Not Acceptable\n\nAvailable representations: %s",
		strings.Join(types, ", "))
	err.ErrStatus.Details = &metav1.StatusDetails{}
	return err
}

// routable reports whether kube-apiserver looks at a clause at all where one of its own kinds is asked for.
func routable(c goautoneg.Accept) bool {
	return c.Type == "*" && c.SubType == "*" || slices.Contains(bodies, c.Type+"/"+c.SubType)
}

// wholeJSON reports whether a clause accepts whole objects in JSON.
func wholeJSON(c goautoneg.Accept) bool {
	f, ok := formatOf(c)
	return ok && f.media == mediaJSON && f.form == whole
}

// fits refuses metadata of a list for an object, and of an object for a list.
func (a asked) fits(f format) error {
	switch {
	case f.form != metadata || a.watching && !f.list:
	case !f.list && a.list:
		return apistatus.New(http.StatusNotAcceptable,
			"you requested PartialObjectMetadata, but the requested object is a list")
	case f.list && !a.list:
		return apistatus.New(http.StatusNotAcceptable,
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

// includes sets what the rows of a table carry, by the parameter includeObject.
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
