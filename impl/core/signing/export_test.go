package signing

// NewTestKey makes a key for benchmarks.
func NewTestKey(algorithm Algorithm) (*Key, error) {
	private, err := generate(algorithm)
	if err != nil {
		return nil, err
	}
	return newKey("test", algorithm, private)
}
