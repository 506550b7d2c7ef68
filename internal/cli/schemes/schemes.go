// Package schemes has the URL schemes with which commands read and write snapshots.
package schemes

import (
	"github.com/larder-dev/larder/snapshot/remote"
	"github.com/larder-dev/larder/snapshot/remote/oci"
	"github.com/larder-dev/larder/snapshot/remote/s3"
)

// Options returns options that add the s3 and oci schemes.
func Options() remote.Options {
	return remote.Options{Schemes: map[string]remote.Scheme{"s3": s3.Scheme, "oci": oci.Scheme}}
}

// URLs lists the supported URLs, for usage texts.
const URLs = "DIR/, s3://BUCKET/PREFIX/ or oci://REGISTRY/REPOSITORY"
