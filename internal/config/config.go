package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// A configuration file must have this apiVersion and kind.
const (
	APIVersion = "larder.dev/v1alpha1"
	Kind       = "SyncConfig"
)

// Config is a configuration of larder sync.
type Config struct {
	File  string
	Store string
	// MaxSize is the maximum size of the store's file in bytes; 0 means no limit.
	MaxSize   int64
	Resources []Resource
	// PersistSecrets stores Secrets in the file without encryption.
	PersistSecrets bool
	Encryption     *Encryption
	// Changes is how long the store keeps changes for larder watch --since. If it is 0, the store keeps none.
	Changes time.Duration
	// Listen is the host:port of the health and metrics endpoints; "" if they are off. The host is never empty.
	Listen string
	Ready  Ready
	// Schemas enables storing the server's OpenAPI schemas in the store.
	Schemas bool
	// Kubeconfig and Context have the meaning of kubectl's flags of the same names. If they are empty, kubectl's
	// defaults apply.
	Kubeconfig, Context string
}

// Resource is one resource to mirror, or a category of resources.
type Resource struct {
	// Name is any name that kubectl accepts: pods, po, deployments.apps, or a category such as all.
	Name string
	// Namespaces limits the mirrored objects to these namespaces; empty means all namespaces.
	Namespaces []string
	// LabelSelector and FieldSelector are valid selectors, in which references to environment variables have been
	// replaced.
	LabelSelector, FieldSelector string
	// Representation is what is stored of each object: entry.Unstructured is all of it, entry.Metadata only its
	// metadata.
	Representation entry.Representation
}

// Encryption says which resources are encrypted. Either KeyFile or KeyEnv says where the key is.
type Encryption struct {
	KeyFile string
	KeyEnv  string
	// Resources are the encrypted resources, as resource or resource.group. The list is never empty.
	Resources []string
	// Named is true if the configuration file has the list of encrypted resources; otherwise Resources is the default.
	Named bool
}

// Ready says when a sync reports that it is ready.
type Ready string

const (
	// ReadyDisk means that a sync is ready when every resource can be read, from the store or after its first list. With
	// stored resources it needs no server.
	ReadyDisk Ready = "disk"
	// ReadyResumed means that a sync is ready when every resource has caught up with the server once since the process
	// started.
	ReadyResumed Ready = "resumed"
)

const maxBytes = 1 << 20

// Load reads and parses a configuration file.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }() // an error of closing a file that was only read loses nothing
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	case len(data) > maxBytes:
		return nil, fmt.Errorf("the configuration %s has more than %d bytes: is it the right file?", path, maxBytes)
	}
	return Parse(path, data)
}

// Parse parses the content of a configuration file. Errors name path, and relative paths in the content are relative to
// the directory of path. The returned error lists all problems, a line each.
func Parse(path string, data []byte) (*Config, error) {
	d, wrong := decode(data)
	r := &reader{file: path}
	var c *Config
	if d != nil {
		c = r.config(d)
	}
	for _, err := range r.errors {
		wrong = append(wrong, err)
	}
	if len(wrong) == 0 {
		return c, nil
	}
	for i, err := range wrong {
		wrong[i] = fmt.Errorf("%s: %w", path, err)
	}
	return nil, errors.Join(wrong...)
}

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

type reader struct {
	file   string
	errors field.ErrorList
}

func (r *reader) config(d *document) *Config {
	c := &Config{
		File: r.file, PersistSecrets: d.PersistSecrets, Ready: ReadyDisk,
		Store:      r.beside(r.text(field.NewPath("store"), d.Store)),
		Kubeconfig: r.beside(r.text(field.NewPath("kubeconfig"), d.Kubeconfig)),
		Context:    r.text(field.NewPath("context"), d.Context),
	}
	r.oneOf(field.NewPath("apiVersion"), &d.APIVersion, APIVersion)
	r.oneOf(field.NewPath("kind"), &d.Kind, Kind)
	if d.MaxSize != nil {
		c.MaxSize = parse(r, field.NewPath("maxSize"), (*string)(d.MaxSize), Size)
	}
	if len(d.Resources) == 0 {
		r.require(field.NewPath("resources"), "what to mirror, as in resources: [{name: pods}]")
	}
	for i, res := range d.Resources {
		c.Resources = append(c.Resources, r.resource(field.NewPath("resources").Index(i), res))
	}
	c.Encryption = r.encryption(field.NewPath("encryption"), d.Encryption)
	c.Changes = max(0, parse(r, field.NewPath("retention", "changes"), d.Retention.Changes, Age))
	c.Listen = parse(r, field.NewPath("listen"), d.Listen, Address)
	if d.Ready != nil {
		c.Ready = Ready(r.oneOf(field.NewPath("ready"), d.Ready, string(ReadyDisk), string(ReadyResumed)))
	}
	c.Schemas = d.Schemas == nil || *d.Schemas
	return c
}

func (r *reader) resource(at *field.Path, d resourceDocument) Resource {
	res := Resource{Name: d.Name, Representation: entry.Unstructured}
	switch {
	case strings.TrimSpace(d.Name) == "":
		r.require(at.Child("name"), "the resource, as in name: pods")
	case strings.ContainsAny(d.Name, ", \t/"):
		r.fail(at.Child("name"), d.Name, errors.New("one element names one resource, such as pods or deployments.apps"))
	}
	res.Namespaces = r.list(at.Child("namespaces"), d.Namespaces)
	for i, name := range res.Namespaces {
		at := at.Child("namespaces").Index(i)
		if wrong := validation.ValidateNamespaceName(name, false); len(wrong) > 0 {
			r.fail(at, name, errors.New(strings.Join(wrong, "; ")))
		}
		if slices.Contains(res.Namespaces[:i], name) {
			r.errors = append(r.errors, field.Duplicate(at, name))
		}
	}
	res.LabelSelector = parse(r, at.Child("labelSelector"), d.LabelSelector, func(s string) (string, error) {
		return selector(s, func(s string) error { _, err := labels.Parse(s); return err })
	})
	res.FieldSelector = parse(r, at.Child("fieldSelector"), d.FieldSelector, func(s string) (string, error) {
		return selector(s, func(s string) error { _, err := fields.ParseSelector(s); return err })
	})
	if d.Representation != nil && r.oneOf(at.Child("representation"), d.Representation, "full", "metadata") == "metadata" {
		res.Representation = entry.Metadata
	}
	return res
}

func (r *reader) encryption(at *field.Path, d *encryptionDocument) *Encryption {
	if d == nil {
		return nil
	}
	if (d.KeyFile == nil) == (d.KeyEnv == nil) {
		r.require(at, "either keyFile or keyEnv: where the key is")
	}
	e := &Encryption{
		KeyFile: r.beside(r.text(at.Child("keyFile"), d.KeyFile)), KeyEnv: r.text(at.Child("keyEnv"), d.KeyEnv),
		Resources: []string{"secrets"},
	}
	if d.Resources != nil {
		e.Resources, e.Named = r.list(at.Child("resources"), d.Resources), true
	}
	return e
}

// text returns an optional string field of the configuration; "" if the field is missing. A field with an empty string
// is an error.
func (r *reader) text(at *field.Path, s *string) string {
	if s == nil {
		return ""
	}
	if strings.TrimSpace(*s) == "" {
		r.require(at, "leave it out instead")
	}
	return *s
}

// list returns an optional list field of the configuration. An empty list and empty elements are errors.
func (r *reader) list(at *field.Path, all *[]string) []string {
	if all == nil {
		return nil
	}
	if len(*all) == 0 {
		r.require(at, "leave it out instead")
	}
	for i := range *all {
		r.text(at.Index(i), &(*all)[i])
	}
	return *all
}

// oneOf returns a field of the configuration that must have one of the allowed values. A missing field is an error.
func (r *reader) oneOf(at *field.Path, s *string, allowed ...string) string {
	switch {
	case *s == "":
		r.require(at, strings.Join(allowed, " or "))
	case !slices.Contains(allowed, *s):
		r.errors = append(r.errors, field.NotSupported(at, *s, allowed))
	}
	return *s
}

// parse returns the value that f parses from a field of the configuration; the zero value if the field is missing or
// invalid.
func parse[T string | int64 | time.Duration](r *reader, at *field.Path, s *string, f func(string) (T, error)) (v T) {
	if text := r.text(at, s); text != "" {
		var err error
		if v, err = f(text); err != nil {
			r.fail(at, text, err)
		}
	}
	return v
}

func (r *reader) require(at *field.Path, what string) {
	r.errors = append(r.errors, field.Required(at, what))
}

func (r *reader) fail(at *field.Path, value string, err error) {
	r.errors = append(r.errors, field.Invalid(at, value, err.Error()))
}

// beside resolves a relative path against the directory of the configuration file.
func (r *reader) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// selector replaces $(NAME) in a selector by the environment variable NAME. It fails if check rejects the result.
func selector(s string, check func(string) error) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "$(")
		b.WriteString(before)
		if !found {
			return b.String(), check(b.String())
		}
		name, after, closed := strings.Cut(rest, ")")
		if !closed {
			return "", errors.New("$( has no )")
		}
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		b.WriteString(value)
		s = after
	}
}

// withB matches sizes that wrongly end in B, such as 64MB and 64MiB.
var withB = regexp.MustCompile(`^[0-9.]+ *([KkMGTP]i?)?[Bb]$`)

// Size parses the maximum size of a store, a quantity such as 512Mi, in bytes.
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

// Forever is the time span "never".
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

// Address parses host:port, and adds the host 127.0.0.1 if there is none.
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
