package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
	"sigs.k8s.io/yaml/kyaml"
)

// ToYAML writes v as YAML that decodes to v. yaml.Marshal parses the JSON of v as YAML, which fails on characters that
// YAML allows only as escapes (DEL, C1), and turns U+0085 into a space.
func ToYAML(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(escapeForYAML(text))
}

// ToKYAML writes v as KYAML, a subset of YAML that kubectl also prints. It escapes the same characters as ToYAML.
func ToKYAML(v any, w io.Writer) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return new(kyaml.Encoder).FromYAML(bytes.NewReader(escapeForYAML(text)), w)
}

// escapeForYAML escapes the characters in JSON that a YAML parser rejects or takes for a line break.
func escapeForYAML(text []byte) []byte {
	special := func(r rune) bool { return r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff }
	if !bytes.ContainsFunc(text, special) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) { // iterating runes is safe: json.Marshal has replaced invalid UTF-8
		if special(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
