package command

import (
	"strconv"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/config"
)

// SizeValue is a flag value in bytes, in the syntax of maxSize in the configuration file, such as 512Mi; 0 is no limit.
type SizeValue int64

func (v *SizeValue) Set(s string) error {
	n, err := config.Size(s)
	*v = SizeValue(n)
	return err
}

func (v *SizeValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}

func (v *SizeValue) Type() string { return "size" }

// AgeValue is a flag value in the syntax of retention.changes in the configuration file, such as 7d or 36h. "0" and
// "never" are 0.
type AgeValue time.Duration

func (v *AgeValue) Set(s string) error {
	if s == "0" {
		*v = 0
		return nil
	}
	d, err := config.Age(s)
	*v = AgeValue(max(0, d))
	return err
}

func (v *AgeValue) String() string {
	if *v == 0 {
		return ""
	}
	return Span(time.Duration(*v))
}

func (v *AgeValue) Type() string { return "duration" }

// Span formats a duration in the short form that AgeValue parses: 7d, 24h, 1h30m.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
