package fakeapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/internal/apistatus"
)

func errNoSuchPath() error {
	return apistatus.New(http.StatusNotFound, "the server could not find the requested resource")
}

func statusBody(status metav1.Status, r representation) ([]byte, error) {
	if !r.protobuf() {
		return json.Marshal(status)
	}
	raw, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	return appendEnvelope(nil, "v1", "Status", raw), nil
}

func writeError(w http.ResponseWriter, err error) {
	status := *apistatus.Of(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	writeJSON(w, int(status.Code), status)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", contentJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
