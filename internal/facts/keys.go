package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

const keysDocument = "service-account-keys"

// IsKeys reports whether the document with this name holds Keys. An attacker who writes Keys can make tokens for any
// service account. So Keys may be used only if they were fetched from the API server, or the file's author is trusted.
func IsKeys(document string) bool { return document == keysDocument }

// Keys are the public keys with which a cluster signs the tokens of its service accounts.
type Keys struct {
	// Issuer is the iss claim of the tokens. It is from the server's /.well-known/openid-configuration.
	Issuer string `json:"issuer"`
	// JWKS is the server's answer to /openid/v1/jwks, a JSON Web Key Set.
	JWKS json.RawMessage `json:"jwks"`
	// Cluster is the id of the server's cluster, as in entry.Attributes; empty if unknown. A token of this cluster must
	// not give access to objects of another.
	Cluster string `json:"cluster,omitempty"`
	// Fetched is when the keys were last requested.
	Fetched time.Time `json:"fetched"`
}

func ReadKeys(ctx context.Context, d Documents) (*Keys, error) {
	data, err := d.Document(ctx, keysDocument)
	if err != nil || data == nil {
		return nil, err
	}
	var k Keys
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("document %q cannot be read: %w", keysDocument, err)
	}
	return &k, nil
}
