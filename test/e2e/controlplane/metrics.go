package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// Version returns the server's version, for example v1.36.3.
func (c *ControlPlane) Version(ctx context.Context) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config("version"))
	if err != nil {
		return "", err
	}
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return v.GitVersion, ctx.Err()
}

// RequestTotal returns the server's counter apiserver_request_total for a resource and a verb (LIST, WATCH, GET, …),
// summed over its series.
func (c *ControlPlane) RequestTotal(ctx context.Context, resource, verb string) (int, error) {
	client, err := kubernetes.NewForConfig(c.Config("metrics"))
	if err != nil {
		return 0, err
	}
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the server's metrics: %w", err)
	}
	return sumSeries(text, "apiserver_request_total",
		fmt.Sprintf("resource=%q", resource), fmt.Sprintf("verb=%q", verb), `subresource=""`)
}

func sumSeries(text []byte, metric string, labels ...string) (int, error) {
	sum := 0.0
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
next:
	for lines.Scan() {
		series, value, found := strings.Cut(lines.Text(), "} ")
		if !found || !strings.HasPrefix(series, metric+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue next
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", metric, err)
		}
		sum += v
	}
	return int(sum), lines.Err()
}
