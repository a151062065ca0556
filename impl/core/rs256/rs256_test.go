package rs256_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"

	"github.com/writ-id/writ/impl/core/rs256"
)

func newKey(t testing.TB, bits int) (*rsa.PrivateKey, *rs256.PrivateKey) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	private, err := rs256.NewPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, private
}

// sign is what Go's own signature is, which both builds have.
func sign(t testing.TB, key *rsa.PrivateKey, input []byte) []byte {
	t.Helper()
	digest := sha256.Sum256(input)
	signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// TestSignaturesAreThoseOfGoToTheByte compares with crypto/rsa: the scheme leaves nothing to
// choose.
func TestSignaturesAreThoseOfGoToTheByte(t *testing.T) {
	t.Parallel()
	t.Log(rs256.Library())
	for _, bits := range []int{2048, 3072} {
		key, private := newKey(t, bits)
		for _, size := range []int{0, 1, 300, 70_000} {
			input := bytes.Repeat([]byte("x"), size)
			if got, err := private.Sign(input); err != nil || !bytes.Equal(got, sign(t, key, input)) {
				t.Errorf("%d bits, %d bytes: got %x, want %x (%v)", bits, size, got, sign(t, key, input), err)
			}
		}
	}
}

// TestKeysAreUsedByManyAtOnceAndGoWithTheirOwner has goroutines sign with keys that the
// collector may take at any time.
func TestKeysAreUsedByManyAtOnceAndGoWithTheirOwner(t *testing.T) {
	t.Parallel()
	key, shared := newKey(t, 2048)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 8 {
				own, err := rs256.NewPrivateKey(key)
				if err != nil {
					t.Error(err)
					return
				}
				runtime.GC()
				input := fmt.Append(nil, i, j)
				for _, private := range []*rs256.PrivateKey{own, shared} {
					if got, err := private.Sign(input); err != nil || !bytes.Equal(got, sign(t, key, input)) {
						t.Errorf("%d of %d: got %x, %v", j, i, got, err)
					}
				}
			}
		})
	}
	all.Wait()
}

// TestManySignaturesTakeFewThreads has 64 goroutines sign, each of which would have a thread of
// its own if nothing held them: those stay with the process.
func TestManySignaturesTakeFewThreads(t *testing.T) {
	_, private := newKey(t, 2048)
	before := pprof.Lookup("threadcreate").Count()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 16 {
				if _, err := private.Sign([]byte("a token")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if made := pprof.Lookup("threadcreate").Count() - before; made > 2*runtime.GOMAXPROCS(0)+8 {
		t.Errorf("%d threads were made", made)
	} else {
		t.Logf("%d threads were made", made)
	}
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t, 2048)
	other, _ := newKey(t, 2048)
	mixed := *key
	mixed.PublicKey = other.PublicKey
	if _, err := rs256.NewPrivateKey(&mixed); err == nil {
		t.Error("a private key with the modulus of another one is imported")
	}
}

// BenchmarkSign compares what this build signs with with Go's own.
func BenchmarkSign(b *testing.B) {
	key, private := newKey(b, 2048)
	input := []byte("a token")
	b.Run(rs256.Library(), func(b *testing.B) {
		for b.Loop() {
			if _, err := private.Sign(input); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("crypto/rsa", func(b *testing.B) {
		for b.Loop() {
			sign(b, key, input)
		}
	})
}
