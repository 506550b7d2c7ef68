package query

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/larder-dev/larder/internal/cli/command"
)

func yamlPrinter() printers.ResourcePrinter {
	printed := false
	return printers.ResourcePrinterFunc(func(obj runtime.Object, w io.Writer) error {
		text, err := command.ToYAML(obj)
		if err == nil && printed {
			_, err = io.WriteString(w, "---\n")
		}
		if err == nil {
			_, err = w.Write(text)
		}
		printed = true
		return err
	})
}
