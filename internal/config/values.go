package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/larder-dev/larder/store"
)

// withB matches sizes that wrongly end in B, such as 64MB and 64MiB.
var withB = regexp.MustCompile(`^[0-9.]+ *([KkMGTP]i?)?[Bb]$`)

func Size(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil && withB.MatchString(s):
		return 0, fmt.Errorf("%q is no size; write it without the B, as in %s", s,
			strings.ReplaceAll(strings.TrimRight(s, "Bb"), " ", ""))
	case err != nil:
		return 0, fmt.Errorf("%q is no size; it is a number of bytes, also with Ki, Mi or Gi, such as 512Mi", s)
	case q.CmpInt64(store.LeastMaxSize) < 0:
		return 0, fmt.Errorf("%s is less than a store needs; %dMi is the least", s, store.LeastMaxSize>>20)
	}
	return q.Value(), nil
}

const Forever = -1

const mostDays = 36500

// Age parses a time span such as 30d (days), 36h or 1h30m (Go durations), or never, which returns Forever.
func Age(s string) (time.Duration, error) {
	if s == "never" {
		return Forever, nil
	}
	d, err := time.ParseDuration(s)
	if days, isDays := strings.CutSuffix(s, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 32)
		if n > mostDays {
			return 0, fmt.Errorf("%q is too long; %dd is the most, or never", s, mostDays)
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no time span; it is a number with d, h, m or s, such as 30d or 36h, or never", s)
	}
	return d, nil
}

func Address(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil {
		return "",
			fmt.Errorf("%q is no address; it is HOST:PORT, such as 127.0.0.1:9470, or 0.0.0.0:9470 for every interface", s)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}
