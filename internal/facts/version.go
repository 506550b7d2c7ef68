package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

// versionDocument is the name of the stored document with the server's version. It equals store.DocumentServerVersion.
const versionDocument = "server-version"

func ReadVersion(ctx context.Context, d Documents) (*version.Info, error) {
	data, err := d.Document(ctx, versionDocument)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return ParseVersion(data)
}

func ParseVersion(data []byte) (*version.Info, error) {
	text := strings.TrimSpace(string(data))
	if !strings.HasPrefix(text, "{") {
		return VersionOf(text), nil
	}
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("document %q is not what a server says of its version: %w", versionDocument, err)
	}
	return &info, nil
}

// VersionOf returns a version.Info with the fields that can be derived from a version such as v1.36.3.
func VersionOf(gitVersion string) *version.Info {
	info := &version.Info{GitVersion: gitVersion}
	if v, err := utilversion.ParseGeneric(gitVersion); err == nil {
		info.Major, info.Minor = strconv.Itoa(int(v.Major())), strconv.Itoa(int(v.Minor()))
	}
	return info
}
