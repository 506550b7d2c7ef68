package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/informer/mapper"
	"github.com/larder-dev/larder/internal/cli/command"
)

// ServerError explains a failed request: whether the API server was reached, and what to do. It appends after, such as
// ", and nothing is stored yet".
func ServerError(err error, after string) error {
	var status apierrors.APIStatus
	var certificate *tls.CertificateVerificationError
	switch {
	case apierrors.IsUnauthorized(err):
		return command.WithHint(fmt.Errorf("the API server did not accept the credentials%s: %w", after, err),
			"they may have expired: log in again, or check --token, --client-certificate, --user and the kubeconfig; kubectl "+
				"auth whoami tells the same")
	case apierrors.IsForbidden(err):
		return command.WithHint(fmt.Errorf("the API server does not allow this to the user of the credentials%s: %w", after,
			err),
			"ask for the verbs list and watch, or use other credentials: --user, --context, --token; kubectl auth can-i "+
				"--list shows what you may do")
	case errors.As(err, &status):
		return command.WithHint(fmt.Errorf("the API server answered with an error%s: %w", after, err),
			"it was reached; try again, or look at its log")
	case errors.As(err, &certificate):
		return command.WithHint(command.Reworded(errors.Join(mapper.ErrUnreachable, err),
			"the API server's certificate was not accepted%s: %v", after, err),
			"check --certificate-authority, --tls-server-name and the kubeconfig")
	}
	return command.WithHint(
		command.Reworded(errors.Join(mapper.ErrUnreachable, err), "the API server could not be reached%s: %v", after, err),
		"check --server, --kubeconfig and the network")
}
