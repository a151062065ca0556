package oidc

import (
	"encoding/asn1"
	"math/big"
)

// flatten turns the ASN.1 signature of crypto/ecdsa on P-256 into the two
// numbers of 32 octets that JWS has (RFC 7518 §3.4).
func flatten(signature []byte) ([]byte, error) {
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &pair); err != nil {
		return nil, err
	}
	flat := make([]byte, 64)
	pair.R.FillBytes(flat[:32])
	pair.S.FillBytes(flat[32:])
	return flat, nil
}
