package config

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "never": Forever,
		"36500d": 36500 * 24 * time.Hour,
	} {
		if got, err := Age(s); got != want || err != nil {
			t.Errorf("%s: got %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", "0d", "-1h", "-1d", "1.5d", "d", "36501d", "99999999999999999999d", "99999999999h",
		"7 d", "Never", "soon"} {
		if got, err := Age(s); got != 0 || err == nil {
			t.Errorf("%s: got %v, %v", s, got, err)
		}
	}
}

func TestSize(t *testing.T) {
	for s, want := range map[string]int64{"512Mi": 512 << 20, "64M": 64e6, "5242880": 5 << 20, "1Gi": 1 << 30} {
		if got, err := Size(s); got != want || err != nil {
			t.Errorf("%s: got %v, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"64MB":    `"64MB" is no size; write it without the B, as in 64M`,
		"64 MiB":  `"64 MiB" is no size; write it without the B, as in 64Mi`,
		"many":    `"many" is no size; it is a number of bytes, also with Ki, Mi or Gi, such as 512Mi`,
		"":        `"" is no size; it is a number of bytes, also with Ki, Mi or Gi, such as 512Mi`,
		"64mi":    `"64mi" is no size; it is a number of bytes, also with Ki, Mi or Gi, such as 512Mi`,
		"5242879": "5242879 is less than a store needs; 5Mi is the least",
		"-1":      "-1 is less than a store needs; 5Mi is the least",
	} {
		if got, err := Size(s); got != 0 || err == nil || err.Error() != want {
			t.Errorf("%s: got %v, %v, want %s", s, got, err, want)
		}
	}
}
