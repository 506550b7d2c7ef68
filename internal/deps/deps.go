// Package deps keeps requirements in go.mod while packages are being written. To be deleted.
package deps

import (
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/vmihailenco/msgpack/v5"
	_ "go.etcd.io/bbolt"
	_ "go.uber.org/goleak"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	_ "k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/cli-runtime/pkg/printers"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/informers"
	_ "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/restmapper"
	_ "k8s.io/utils/clock/testing"
	_ "pgregory.net/rapid"
)
