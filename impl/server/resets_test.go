package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// TestSEC294_WhoResetsManyStreamsLosesTheConnection opens and resets streams at once;
// who only opens them keeps its connection.
func TestSEC294_WhoResetsManyStreamsLosesTheConnection(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} { // grpc-go, and net/http
		c := servertest.New(t, 1, func(config *server.Config) { config.SharedHTTP2 = shared })
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("shared %v, reset %v", shared, reset), func(t *testing.T) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(c.Nodes[0], "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				closed := make(chan struct{})
				framer := http2.NewFramer(conn, conn)
				answers := make(chan uint32, 10_000)
				go func() {
					defer close(closed)
					for {
						frame, err := framer.ReadFrame()
						if err != nil {
							return
						}
						if frame.Header().Flags.Has(http2.FlagHeadersEndStream) && (frame.Header().Type == http2.FrameHeaders || frame.Header().Type == http2.FrameData) {
							answers <- frame.Header().StreamID
						}
						if frame.Header().Type == http2.FrameRSTStream {
							answers <- frame.Header().StreamID
						}
					}
				}()
				_, _ = io.WriteString(conn, http2.ClientPreface)
				_ = framer.WriteSettings()
				var headers bytes.Buffer
				encoder := hpack.NewEncoder(&headers)
				sent := 0
				for stream := uint32(1); sent < 2000; stream += 2 {
					headers.Reset()
					for _, field := range [][2]string{
						{":method", "POST"}, {":scheme", "http"}, {":path", "/writ.action.v3alpha.ServiceActions/SearchTargets"}, {":authority", "a.example"},
						{"content-type", "application/grpc"}, {"te", "trailers"}, {"authorization", "Bearer x"},
					} {
						_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
					}
					if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headers.Bytes(), EndHeaders: true}) != nil {
						break
					}
					sent++
					if reset {
						err = framer.WriteRSTStream(stream, http2.ErrCodeCancel)
					} else if err = framer.WriteData(stream, true, make([]byte, 5)); err == nil {
						select {
						case <-answers:
						case <-closed:
							t.Fatalf("the connection ended after %d calls", sent)
						}
					}
					if err != nil {
						break
					}
				}
				if reset {
					<-closed
				}
			})
		}
	}
}
