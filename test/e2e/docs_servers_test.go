package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/larder-dev/larder/test/e2e/fileservers"
)

// withServers starts servers for the commands of a documentation page: a web server on the shell's directory, an S3
// bucket, and a registry with a password.
func (s *shell) withServers() {
	s.t.Helper()
	web := httptest.NewServer(http.FileServer(http.Dir(s.dir)))
	s.t.Cleanup(web.Close)
	bucket := fileservers.S3(s.t, s.t.TempDir())
	registry := fileservers.RegistryAs(s.t, s.t.TempDir(), "larder", "larder")
	docker := filepath.Join(s.dir, ".docker")
	must(s.t, os.Mkdir(docker, 0o700))
	auth := base64.StdEncoding.EncodeToString([]byte("larder:larder"))
	must(s.t, os.WriteFile(filepath.Join(docker, "config.json"),
		fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, registry, auth), 0o600))
	for name, value := range map[string]string{"CDN": web.URL, "REGISTRY": registry, "BUCKET": bucket.Bucket,
		"AWS_ENDPOINT_URL": bucket.Endpoint, "AWS_REGION": bucket.Region, "AWS_ACCESS_KEY_ID": bucket.AccessKey,
		"AWS_SECRET_ACCESS_KEY": bucket.SecretKey} {
		s.do("", step{command: fmt.Sprintf("export %s='%s'", name, value)}, false)
	}
}
