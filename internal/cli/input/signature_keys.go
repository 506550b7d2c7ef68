package input

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"

	"github.com/larder-dev/larder/internal/cli/command"
)

// maxKey is the maximum size in bytes of a file with a signing key or a public key.
const maxKey = 4 << 10

const keyHint = "larder keygen --signing FILE makes such keys, and so does minisign -G -W"

func PublicKeys(flag string, values []string) (all []minisign.PublicKey, err error) {
	for _, value := range values {
		var key minisign.PublicKey
		if key.UnmarshalText([]byte(value)) != nil {
			text, err := readKey(value)
			switch {
			case isSecret([]byte(value)) || err == nil && isSecret(text):
				// The value is a secret key: the error must not repeat it.
				err = errors.New("this is a secret key, which nobody who verifies may have: give the public one, which larder " +
					"keygen --signing has printed")
			case err != nil: // the error does not quote the value, which may be part of a secret key
				err = errors.New("this is neither a public key of minisign nor a file of one that can be read")
			case key.UnmarshalText(text) != nil:
				err = fmt.Errorf("%s is no public key of minisign", value)
			}
			if err != nil {
				return nil, command.Usage(command.WithHint(fmt.Errorf("--%s: %w", flag, err), keyHint))
			}
		}
		all = append(all, key)
	}
	return all, nil
}

func isSecret(text []byte) bool {
	var key minisign.PrivateKey
	return minisign.IsEncrypted(text) || key.UnmarshalText(text) == nil
}

func SigningKey(flag, file string) (*minisign.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readKey(file)
	var key minisign.PrivateKey
	switch {
	case err != nil:
	case minisign.IsEncrypted(text):
		err = fmt.Errorf("%s has a password, which nobody could type here", file)
	case key.UnmarshalText(text) != nil: // the error does not wrap its cause, which may quote the key
		err = fmt.Errorf("%s is no secret key of minisign", file)
	default:
		return &key, nil
	}
	return nil, command.Usage(command.WithHint(fmt.Errorf("--%s: %w", flag, err), keyHint))
}

func readKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxKey {
		return nil, fmt.Errorf("%s is not the file of a key", file)
	}
	text, err := os.ReadFile(file)
	return []byte(strings.TrimSpace(string(text))), err
}
