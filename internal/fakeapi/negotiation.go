package fakeapi

import (
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/internal/apistatus"
)

func negotiate(accept string, k *kind) (representation, error) {
	if accept == "" {
		return asJSON, nil
	}
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(strings.TrimSpace(clause))
		if err != nil {
			continue
		}
		metadata := false
		switch as := params["as"]; as {
		case "":
		case partialKind, partialKind + "List":
			if params["g"] != metav1.GroupName || params["v"] != "v1" {
				continue
			}
			metadata = true
		default:
			continue
		}
		if r, ok := pick(mediaType, metadata, k); ok {
			return r, nil
		}
	}
	return 0, apistatus.New(http.StatusNotAcceptable,
		"only the following media types are accepted: "+contentJSON+", "+contentProtobuf)
}

func pick(mediaType string, metadata bool, k *kind) (representation, bool) {
	switch mediaType {
	case contentJSON, "*/*", "application/*":
		if metadata && !k.AsWritten {
			return asMetadataJSON, true
		}
		return asJSON, true
	case contentProtobuf:
		if metadata && !k.AsWritten {
			return asMetadataProtobuf, true
		}
		return asProtobuf, !k.custom()
	}
	return 0, false
}

func (r representation) contentType() string {
	if r.protobuf() {
		return contentProtobuf
	}
	return contentJSON
}

func (r representation) streamType() string {
	if r.protobuf() {
		return contentProtobuf + ";stream=watch"
	}
	return contentJSON
}
