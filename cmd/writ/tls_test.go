package main

import (
	"crypto/tls"
	"testing"
)

// RFC 9325, sections 3.1.1 and 4.2: TLS 1.3 is preferred, and of TLS 1.2 no suite without
// forward secrecy or with CBC is spoken.
func TestSEC335_NoWeakSuiteIsServed(t *testing.T) {
	t.Parallel()
	var f nodeFlags
	var err error
	if f.tlsCert, f.tlsKey, err = ownCertificate(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	config, err := f.certificate()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = conn.(*tls.Conn).Handshake(); _ = conn.Close() }()
		}
	}()
	dial := func(client *tls.Config) (tls.ConnectionState, error) {
		client.InsecureSkipVerify = true
		conn, err := tls.Dial("tcp", listener.Addr().String(), client)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer conn.Close()
		return conn.ConnectionState(), nil
	}
	if state, err := dial(&tls.Config{}); err != nil || state.Version != tls.VersionTLS13 {
		t.Errorf("a client of today speaks %x: %v", state.Version, err)
	}
	if state, err := dial(&tls.Config{MaxVersion: tls.VersionTLS12}); err != nil || state.CipherSuite != tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 {
		t.Errorf("a client of TLS 1.2 speaks %s: %v", tls.CipherSuiteName(state.CipherSuite), err)
	}
	if _, err := dial(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is served")
	}
	recommended := map[uint16]bool{}
	for _, suite := range config.CipherSuites {
		recommended[suite] = true
	}
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.SupportedVersions[0] == tls.VersionTLS13 || recommended[suite.ID] {
			continue
		}
		if _, err := dial(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}); err == nil {
			t.Errorf("%s is served", suite.Name)
		}
	}
}
