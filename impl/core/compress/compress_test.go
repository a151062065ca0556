package compress

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func TestTheEncodingThatAClientPrefersIsUsed(t *testing.T) {
	t.Parallel()
	for accepts, want := range map[string]Encoding{
		"": "", "identity": "", "br, deflate": "", "gzip": Gzip, "gzip, zstd": Zstd, "zstd, gzip": Zstd, "GZIP": Gzip,
		"zstd;q=0.5, gzip;q=0.8": Gzip, "zstd;q=0, gzip": Gzip, "gzip;q=0": "", "gzip; q=0.1": Gzip, "gzip;q=x": "", "*": "",
	} {
		if got := Accepted(http.Header{"Accept-Encoding": {accepts}}); got != want {
			t.Errorf("%q: got %q, want %q", accepts, got, want)
		}
	}
}

func TestWhatIsCompressedIsTheSame(t *testing.T) {
	t.Parallel()
	plain := []byte(strings.Repeat("the same text again, ", 500))
	prepared := &Prepared{Plain: plain}
	for name, made := range map[string]struct {
		e    Encoding
		body []byte
	}{
		"gzip": {Gzip, Gzip.Body(plain)}, "zstd": {Zstd, Zstd.Body(plain)},
		"gzip once": {Gzip, prepared.In(Gzip)}, "zstd once": {Zstd, prepared.In(Zstd)}, "none": {"", prepared.In("")},
	} {
		var in io.Reader = bytes.NewReader(made.body)
		var err error
		switch made.e {
		case Gzip:
			in, err = gzip.NewReader(in)
		case Zstd:
			in, err = zstd.NewReader(in)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(got, plain) || made.e != "" && len(made.body) > len(plain)/10 {
			t.Errorf("%s: %d bytes made %d: %v", name, len(plain), len(made.body), err)
		}
	}
}
