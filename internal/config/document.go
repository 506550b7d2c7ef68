package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// document is the configuration file as decoded from YAML. Fields missing in the file are nil pointers.
type document struct {
	APIVersion     string              `json:"apiVersion"`
	Kind           string              `json:"kind"`
	Store          *string             `json:"store"`
	MaxSize        *scalar             `json:"maxSize"`
	Resources      []resourceDocument  `json:"resources"`
	PersistSecrets bool                `json:"persistSecrets"`
	Encryption     *encryptionDocument `json:"encryption"`
	Retention      struct {
		Changes *string `json:"changes"`
	} `json:"retention"`
	Listen     *string `json:"listen"`
	Ready      *string `json:"ready"`
	Schemas    *bool   `json:"schemas"`
	Kubeconfig *string `json:"kubeconfig"`
	Context    *string `json:"context"`
}

type resourceDocument struct {
	Name           string    `json:"name"`
	Namespaces     *[]string `json:"namespaces"`
	LabelSelector  *string   `json:"labelSelector"`
	FieldSelector  *string   `json:"fieldSelector"`
	Representation *string   `json:"representation"`
}

type encryptionDocument struct {
	KeyFile   *string   `json:"keyFile"`
	KeyEnv    *string   `json:"keyEnv"`
	Resources *[]string `json:"resources"`
}

// scalar is the text of a configuration field that may be a string or a number.
type scalar string

func (s *scalar) UnmarshalJSON(data []byte) error {
	var number json.Number // json.Number also accepts a string of digits
	if err := json.Unmarshal(data, &number); err == nil {
		*s = scalar(number)
		return nil
	}
	return json.Unmarshal(data, (*string)(s))
}

var errEmpty = errors.New("the file is empty; it begins with apiVersion: " + APIVersion + " and kind: " + Kind)

// decode reads the YAML of a configuration strictly: unknown and duplicate fields are errors, and decode returns all of
// them. If a field has a wrong type, decode returns only the error about that type.
func decode(data []byte) (*document, []error) {
	documents := yamlv3.NewDecoder(bytes.NewReader(data))
	var first, second yamlv3.Node
	switch err := documents.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, []error{errEmpty}
	case err != nil:
		return nil, []error{err}
	}
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, []error{errors.New("it has a second document; one is the configuration")}
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, []error{err}
	}
	d := &document{}
	strict, err := kjson.UnmarshalStrict(text, d)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) { // the decoder's own text names Go types, so it is replaced
		err = fmt.Errorf("%s must not be of type %s", wrong.Field, wrong.Value)
		if wrong.Field == "" {
			err = fmt.Errorf("it must have fields, apiVersion and kind first; it is of type %s", wrong.Value)
		}
	}
	if err != nil {
		return nil, []error{err}
	}
	return d, strict
}
