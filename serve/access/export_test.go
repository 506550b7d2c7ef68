package access

import "bytes"

func ParseTokens(data []byte) ([]User, error) {
	all, err := parseTokens(data, func(int, string) {})
	users := make([]User, 0, len(all))
	for _, u := range all {
		users = append(users, u)
	}
	return users, err
}

func ParseAccess(data []byte) (*OfflineAccess, error) {
	rules, err := parseAccess(bytes.Clone(data))
	if err != nil {
		return nil, err
	}
	return &OfflineAccess{rules: func() *accessRules { return rules }}, nil
}
