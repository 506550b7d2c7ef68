package contract

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, metav1.AddMetaToScheme,
		apidiscovery.AddToScheme} {
		utilruntime.Must(add(s))
	}
	s.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{},
		&metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
}()

const protobuf = "application/vnd.kubernetes.protobuf"

// parse decodes a body into encoding/json values with unparsed numbers. A body other than JSON, YAML and Kubernetes'
// protobuf becomes a string.
func parse(contentType string, body []byte) (any, error) {
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case len(body) == 0:
		return nil, nil
	case media == protobuf:
		return parseProtobuf(body)
	case media == "application/json":
		return parseJSON(body)
	case media == "application/yaml":
		data, err := yaml.ToJSON(body)
		if err != nil {
			return nil, err
		}
		return parseJSON(data)
	case !utf8.Valid(body):
		return fmt.Sprintf("%d bytes %x", len(body), digest(body)), nil
	default:
		return string(body), nil
	}
}

func parseJSON(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return v, nil
}

func parseProtobuf(body []byte) (any, error) {
	var envelope runtime.Unknown
	body, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		return nil, errors.New("not Kubernetes' protobuf")
	}
	if err := envelope.Unmarshal(body); err != nil {
		return nil, err
	}
	if envelope.ContentType != "" || envelope.ContentEncoding != "" {
		return nil, fmt.Errorf("content is %s %s", envelope.ContentType, envelope.ContentEncoding)
	}
	gvk := schema.FromAPIVersionAndKind(cmp.Or(envelope.APIVersion, "v1"), envelope.Kind) // /api and /api/v1 lack it
	object, err := scheme.New(gvk)
	if runtime.IsNotRegisteredError(err) { // the kind has no Go type in client-go
		return map[string]any{"kind": envelope.Kind, "apiVersion": envelope.APIVersion, "protobuf": true}, nil
	}
	if err != nil {
		return nil, err
	}
	message, ok := object.(interface{ Unmarshal([]byte) error })
	if !ok {
		return nil, fmt.Errorf("%s has no protobuf", gvk)
	}
	if err := message.Unmarshal(envelope.Raw); err != nil {
		return nil, err
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(data)
	if tree, ok := v.(map[string]any); ok {
		tree["kind"], tree["apiVersion"] = envelope.Kind, envelope.APIVersion
	}
	return v, err
}

func parseEvents(contentType string, body []byte) (events []any, err error) {
	if strings.HasPrefix(contentType, protobuf) {
		return parseFrames(body)
	}
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		d.UseNumber()
		var event any
		err := d.Decode(&event)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
}

// parseFrames returns the events of a watch in protobuf. Four bytes before each event have its length.
func parseFrames(body []byte) (events []any, err error) {
	for len(body) > 0 {
		if len(body) < 4 {
			return events, io.ErrUnexpectedEOF
		}
		n := int(binary.BigEndian.Uint32(body))
		if body = body[4:]; len(body) < n {
			return events, io.ErrUnexpectedEOF
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(body[:n]); err != nil {
			return events, err
		}
		body = body[n:]
		object, err := parseProtobuf(event.Object.Raw)
		if err != nil {
			return events, err
		}
		events = append(events, map[string]any{"type": event.Type, "object": object})
	}
	return events, nil
}
