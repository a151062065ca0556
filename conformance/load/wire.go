package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// conn is one keep-alive connection that sends requests whose bytes are made
// beforehand. net/http's client costs as much as a small handler, on the cores
// that the server needs.
type conn struct {
	addr   string
	socket net.Conn
	reader *bufio.Reader
	body   []byte
}

// answer is what came back. It is valid until the next request.
type answer struct {
	status   int
	location string
	cookies  []string // name=value
	body     []byte
}

func dial(addr string) (*conn, error) {
	socket, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{addr: addr, socket: socket, reader: bufio.NewReaderSize(socket, 32<<10)}, nil
}

func (c *conn) close() { _ = c.socket.Close() }

// redial opens a connection anew: servers close those that were idle for long.
func (c *conn) redial() error {
	fresh, err := dial(c.addr)
	if err == nil {
		c.close()
		*c = *fresh
	}
	return err
}

// send makes one request and reads its answer.
func (c *conn) send(request []byte) (answer, error) {
	if _, err := c.socket.Write(request); err != nil {
		return answer{}, err
	}
	return c.read()
}

func (c *conn) read() (a answer, err error) {
	line, err := c.line()
	if err != nil {
		return a, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return a, fmt.Errorf("not an answer: %q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, fmt.Errorf("not an answer: %q", line)
	}
	length, chunked, closes := -1, false, false
	for {
		line, err := c.line()
		if err != nil {
			return a, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch { // by length first: most heads are none of these
		case len(name) == 14 && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return a, err
			}
		case len(name) == 17 && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		case len(name) == 10 && bytes.EqualFold(name, []byte("Connection")):
			closes = bytes.EqualFold(value, []byte("close"))
		case len(name) == 8 && bytes.EqualFold(name, []byte("Location")):
			a.location = string(value)
		case len(name) == 10 && bytes.EqualFold(name, []byte("Set-Cookie")):
			pair, _, _ := bytes.Cut(value, []byte(";"))
			a.cookies = append(a.cookies, string(pair))
		}
	}
	switch {
	case chunked:
		if a.body, err = io.ReadAll(httputil.NewChunkedReader(c.reader)); err == nil {
			_, err = c.line() // the end of the trailer
		}
	case length > 0:
		if cap(c.body) < length {
			c.body = make([]byte, length)
		}
		a.body = c.body[:length]
		_, err = io.ReadFull(c.reader, a.body)
	case length < 0 && a.status != http.StatusNoContent && a.status != http.StatusNotModified:
		return a, errors.New("the answer does not say how long it is")
	}
	if err == nil && closes {
		err = c.redial()
	}
	return a, err
}

func (c *conn) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// expect sends a request whose answer has to have a status.
func (c *conn) expect(request []byte, status int) (answer, error) {
	a, err := c.send(request)
	if err == nil && a.status != status {
		head, _, _ := bytes.Cut(request, []byte("\r\n"))
		err = fmt.Errorf("%.120s: %d %s %.300s", head, a.status, a.location, a.body)
	}
	return a, err
}

// get returns the bytes of a GET request. heads are pairs of a name and a value.
func get(address string, heads ...string) []byte { return request("GET", address, nil, heads) }

// post returns the bytes of a request that sends a form.
func post(address string, form url.Values, heads ...string) []byte {
	return request("POST", address, form, heads)
}

func request(method, address string, form url.Values, heads []string) []byte {
	at, err := url.Parse(address)
	if err != nil {
		panic(err) // it comes from a discovery document that was read
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, at.RequestURI(), at.Host)
	for i := 0; i+1 < len(heads); i += 2 {
		if heads[i+1] != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", textproto.CanonicalMIMEHeaderKey(heads[i]), heads[i+1])
		}
	}
	if form != nil {
		text := form.Encode()
		fmt.Fprintf(&b, "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	} else {
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// member returns a text member of a JSON object without reading all of it: the
// values looked for here, tokens, have no escapes.
func member(body []byte, name string) (string, error) {
	text := string(body)
	_, rest, ok := strings.Cut(text, `"`+name+`"`)
	if ok {
		rest = strings.TrimLeft(rest, " \t\r\n:")
		value, _, closed := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
		if closed && strings.HasPrefix(rest, `"`) {
			return value, nil
		}
	}
	return "", fmt.Errorf("no %s in %.200s", name, body)
}
