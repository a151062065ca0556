package signing

import "context"

// Foreign is a Set that signs with keys that are in no key set, as one that has left it: for
// tests of those who verify. Development has one.
type Foreign struct{ *Set }

// Get returns the keys of an instance, with others to sign with.
func (f Foreign) Get(ctx context.Context, instanceID string) (*Published, error) {
	keys, err := f.Set.Get(ctx, instanceID)
	if err != nil {
		return nil, err
	}
	other := *keys
	if other.signer, err = keys.signer.foreign(); err != nil {
		return nil, err
	}
	other.asked = map[Algorithm]*Key{}
	for algorithm, key := range keys.asked {
		if other.asked[algorithm], err = key.foreign(); err != nil {
			return nil, err
		}
	}
	return &other, nil
}

// foreign makes a key that is in no key set.
func (k *Key) foreign() (*Key, error) {
	private, err := generate(k.Algorithm)
	if err != nil {
		return nil, err
	}
	return newKey(k.ID+"-expired", k.Algorithm, private)
}
