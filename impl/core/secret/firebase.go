package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/scrypt"
)

// firebaseHash reads a hash of Firebase Authentication with the parameters of its project:
//
//	$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=…$salt$key
//
// scrypt of the password, with the salt and after it the separator of the project (ss),
// encrypts the signer key of the project (sk) with AES-256 in counter mode from zero; what
// comes out is the hash.
func firebaseHash(parts []string) *Hash {
	if len(parts) != 3 {
		return nil
	}
	parameters, keys, _ := strings.Cut(parts[0], ",ss=")
	separatorText, signerText, named := strings.Cut(keys, ",sk=")
	p := numbers(parameters, "v", "n", "r", "p")
	encoding := base64.StdEncoding.Strict()
	separator, separatorErr := encoding.DecodeString(separatorText)
	signer, signerErr := encoding.DecodeString(signerText)
	salt, key, ok := saltAndKey(base64.StdEncoding, parts[1], parts[2])
	if p == nil || !named || separatorErr != nil || signerErr != nil || !ok || p[0] != 1 || p[1] < 10 || p[1] > 14 || p[2] < 1 || p[2] > 8 || p[3] != 1 || len(signer) != len(key) {
		return nil
	}
	n, r := 1<<p[1], p[2]
	salt = append(salt, separator...)
	return &Hash{key: key, sample: "scrypt", work: float64(n*r) / sampleScrypt, derive: func(password []byte) []byte {
		made, _ := scrypt.Key(password, salt, n, r, 1, keyBytes) // its errors are those bounds
		block, _ := aes.NewCipher(made)                          // and its of another length
		sealed := make([]byte, len(signer))
		cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(sealed, signer)
		return sealed
	}}
}
