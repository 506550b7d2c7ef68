package report

import (
	"fmt"
	"math"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

// Figure returns a value with its unit, in three digits.
func Figure(value float64, unit scenario.Unit) string {
	switch unit {
	case scenario.Seconds:
		if value < 1 {
			return digits(value*1e3) + " ms"
		}
		return digits(value) + " s"
	case scenario.Microseconds:
		if value >= 1e3 {
			return digits(value/1e3) + " ms"
		}
		return digits(value) + " µs"
	case scenario.Bytes:
		for _, prefix := range []string{"", "k", "M"} {
			if value < 1000 {
				return digits(value) + " " + prefix + "B"
			}
			value /= 1000
		}
		return digits(value) + " GB"
	case scenario.Count:
		return count(value)
	}
	return digits(value) + string(unit)
}

var english = message.NewPrinter(language.English)

func digits(value float64) string {
	if value == 0 {
		return "0"
	}
	return english.Sprintf("%.*f", max(2-int(math.Floor(math.Log10(math.Abs(value)))), 0), value)
}

func count(value float64) string { return english.Sprintf("%.0f", value) }

// ratioText formats a ratio as text. It returns "" if the ratio was not measured (nil).
func ratioText(ratio *float64) string {
	if ratio == nil {
		return ""
	}
	return Ratio(*ratio)
}

// Ratio formats a ratio, small ones as fractions.
func Ratio(ratio float64) string {
	if ratio > 0 && ratio < 0.1 {
		return "1/" + count(1/ratio)
	}
	return digits(ratio) + "×"
}

// Line formats the figures of one benchmark case in a line.
func Line(s scenario.Scenario, result scenario.Result) string {
	var parts []string
	for _, m := range s.Metrics {
		if value, has := result[m.Key]; has {
			parts = append(parts, fmt.Sprintf("%s %s", m.Title, Figure(value, m.Unit)))
		}
	}
	return strings.Join(parts, ", ")
}
