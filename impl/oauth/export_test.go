package oauth

// What is fuzzed by itself.
var (
	Basic      = basic
	ReadScopes = func(text string) ([]string, error) {
		s, err := readScopes(text)
		if err != nil {
			return nil, err
		}
		return s.list, nil
	}
	Proves = proves
)
