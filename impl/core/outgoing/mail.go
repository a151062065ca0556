package outgoing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// maxMailRead is how much a mail server may say while a connection to it is open: enough
// for the certificates and some hundred messages, and no line without an end.
const maxMailRead = 1 << 20

// ErrMailPort is the error of a port that is not one of mail servers.
var ErrMailPort = errors.New("only the ports 25, 465, 587 and those from 1024 are called")

// MailPort reports whether mail servers may be called at a port. Below 1024 are services
// that were never meant to get mail.
func MailPort(port string) error {
	n, err := strconv.Atoi(port)
	if err != nil || n != 25 && n != 465 && n != 587 && (n < 1024 || n > 65535) {
		return ErrMailPort
	}
	return nil
}

// DialMail connects to a mail server at host:port, by the rules of all calls, and with TLS
// from the first byte if that is said. Its errors say no address (SEC-259).
func (c *Client) DialMail(ctx context.Context, address string, encrypted bool) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.New("the address is not host:port")
	}
	if err := MailPort(port); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	conn, err := c.dial(ctx, "tcp", address)
	if err != nil {
		return nil, plain(err)
	}
	conn = &mailConn{Conn: conn, left: maxMailRead}
	if !encrypted {
		return conn, nil
	}
	over := tls.Client(conn, c.TLS(host))
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("no TLS: %w", plain(err))
	}
	return over, nil
}

// TLS returns how connections to a host are encrypted, which has to prove its name.
func (c *Client) TLS(host string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.tls != nil {
		config = c.tls.Clone()
	}
	config.ServerName = host
	return config
}

// mailConn is a connection that says so much and no more.
type mailConn struct {
	net.Conn
	left int
}

func (m *mailConn) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, fmt.Errorf("the server says too much: %w", io.ErrUnexpectedEOF)
	}
	n, err := m.Conn.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}
