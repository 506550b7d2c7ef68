package base

import "testing"

func TestPrintableText(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"pods.v1 “a” é, 日本 (x)": "pods.v1 “a” é, 日本 (x)",
		"a\nb":                  `"a\nb"`,
		"\x1b[2J":               `"\x1b[2J"`,
		"\u009b2J":              `"\u009b2J"`,
		"\u202etxt":             `"\u202etxt"`,
		"\xff":                  `"\xff"`,
	} {
		if got := PrintableText(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
