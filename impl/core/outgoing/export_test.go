package outgoing

import (
	"crypto/tls"
	"crypto/x509"
)

// Trust makes the client trust a certificate of a test.
func (c *Client) Trust(certificate *x509.Certificate) {
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	c.tls = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
