package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// ServerVersion returns the gitVersion of the server's /version, which every user may read by default.
func ServerVersion(ctx context.Context, client rest.Interface) (string, error) {
	data, err := client.Get().AbsPath("/version").Do(ctx).Raw()
	var info apiversion.Info
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return "", fmt.Errorf("read the server's version: %w", err)
	}
	return info.GitVersion, nil
}
