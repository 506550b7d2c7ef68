package query

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/larder-dev/larder/internal/cli/command"
)

// objectFormats are the output formats for whole objects that cli-runtime's printers support.
var objectFormats = []string{
	"json", "yaml", "kyaml", "name",
	"go-template", "go-template-file", "template", "templatefile", "jsonpath", "jsonpath-as-json", "jsonpath-file",
}

func (f *printFlags) objectPrinter(format string) (printers.ResourcePrinter, error) {
	var p printers.ResourcePrinter
	switch strings.ToLower(format) {
	case "name":
		return &printers.NamePrinter{ShortOutput: true}, nil
	case "json":
		p = &printers.JSONPrinter{}
	case "yaml":
		p = yamlPrinter()
	case "kyaml":
		p = printers.ResourcePrinterFunc(func(obj runtime.Object, w io.Writer) error { return command.ToKYAML(obj, w) })
	default:
		return f.templatePrinter(format)
	}
	if !f.managedFields {
		p = &printers.OmitManagedFieldsPrinter{Delegate: p}
	}
	return p, nil
}

func (f *printFlags) templatePrinter(format string) (printers.ResourcePrinter, error) {
	format, template, _ := strings.Cut(format, "=")
	if f.template != "" {
		template = f.template
	}
	if template == "" {
		return nil, errors.New("template format specified but no template given")
	}
	if strings.HasSuffix(format, "file") {
		data, err := os.ReadFile(template)
		if err != nil {
			return nil, fmt.Errorf("read the template: %w", err)
		}
		template = string(data)
	}
	if strings.HasPrefix(format, "jsonpath") {
		p, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return nil, fmt.Errorf("error parsing jsonpath %s, %w", template, err)
		}
		p.AllowMissingKeys(f.allowMissing)
		p.EnableJSONOutput(format == "jsonpath-as-json")
		return p, nil
	}
	p, err := printers.NewGoTemplatePrinter([]byte(template))
	if err != nil {
		return nil, fmt.Errorf("error parsing template %s, %w", template, err)
	}
	p.AllowMissingKeys(f.allowMissing)
	return p, nil
}
