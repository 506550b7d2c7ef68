package access

import "bytes"

// ParseTokens is for fuzzing: it returns the users of a token file.
func ParseTokens(data []byte) ([]User, error) {
	all, err := parseTokens(data, func(int, string) {})
	users := make([]User, 0, len(all))
	for _, u := range all {
		users = append(users, u)
	}
	return users, err
}

// ParseAccess is for fuzzing: it returns the offline access that a file grants.
func ParseAccess(data []byte) (*OfflineAccess, error) {
	rules, err := parseAccess(bytes.Clone(data))
	if err != nil {
		return nil, err
	}
	return &OfflineAccess{rules: func() *accessRules { return rules }}, nil
}
