package token_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/core/token"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var kinds = []token.Kind{token.Access, token.Refresh, token.Code, token.Flow, token.Form}

// newBoxes returns boxes of two nodes over a database with the instances a and b.
func newBoxes(t testing.TB) (first, second *token.Box) {
	t.Helper()
	db := pgtest.Open(t, 4)
	for _, id := range []string{"a", "b"} {
		if _, err := db.Pool.Exec(t.Context(), "INSERT INTO instances (id, name, name_folded, change_date, creation_date, sequence) VALUES ($1, $1, $1, now(), now(), 1)", id); err != nil {
			t.Fatal(err)
		}
	}
	sealer, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	return &token.Box{DB: db, Sealer: sealer, Now: time.Now}, &token.Box{DB: db, Sealer: sealer, Now: time.Now}
}

func TestSEC078_SEC217_ATokenIsOfItsKindAndInstance(t *testing.T) {
	t.Parallel()
	first, second := newBoxes(t)
	for _, kind := range kinds {
		text, err := first.Seal(t.Context(), "a", kind, &tokenv1.Code{Id: "1", Nonce: "n"})
		if err != nil {
			t.Fatal(err)
		}
		var got tokenv1.Code
		if err := second.Open(t.Context(), "a", kind, text, &got); err != nil || got.GetId() != "1" || got.GetNonce() != "n" {
			t.Errorf("%s at the other node: %v %v", kind, &got, err)
		}
		for _, other := range kinds {
			renamed := string(other) + strings.TrimPrefix(text, string(kind))
			for _, instance := range []string{"a", "b"} {
				if other == kind && instance == "a" {
					continue
				}
				for _, shown := range []string{text, renamed} {
					if err := second.Open(t.Context(), instance, other, shown, &got); !errors.Is(err, token.ErrInvalid) {
						t.Errorf("%s as %s of %s: %v", kind, other, instance, err)
					}
				}
			}
		}
	}
}

// FuzzOpen: only what was sealed opens, to what it was; any other text, near to one or
// not, is ErrInvalid.
func FuzzOpen(f *testing.F) {
	box, _ := newBoxes(f)
	message := &tokenv1.AccessToken{Id: "1", UserId: "u", Scopes: []string{"openid"}, ExpiresAt: 1 << 40}
	sealed, err := box.Seal(f.Context(), "a", token.Access, message)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{sealed, sealed + "A", sealed[:len(sealed)-1], sealed + "\n", string(token.Access), "", strings.Repeat("A", 17<<10), string(token.Refresh) + sealed[8:]} {
		f.Add(seed, 0, byte(0))
	}
	f.Add("", 9, byte(1))
	f.Add("", 60, byte(0x80))
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, text string, at int, change byte) {
		got := &tokenv1.AccessToken{}
		switch err := box.Open(ctx, "a", token.Access, text, got); {
		case err == nil && (text != sealed || !proto.Equal(got, message)):
			t.Fatalf("%q opens to %v", text, got)
		case err != nil && !errors.Is(err, token.ErrInvalid):
			t.Fatalf("%q: %v", text, err)
		}
		// One byte of the good one, as text and below its encoding.
		if change == 0 || at < 0 {
			return
		}
		altered := []byte(sealed)
		altered[at%len(altered)] ^= change
		if err := box.Open(ctx, "a", token.Access, string(altered), got); !errors.Is(err, token.ErrInvalid) {
			t.Fatalf("%q: %v", altered, err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sealed, string(token.Access)))
		if err != nil {
			t.Fatal(err)
		}
		raw[at%len(raw)] ^= change
		if err := box.Open(ctx, "a", token.Access, string(token.Access)+base64.RawURLEncoding.EncodeToString(raw), got); !errors.Is(err, token.ErrInvalid) {
			t.Fatalf("byte %d changed by %x: %v", at%len(raw), change, err)
		}
	})
}

// FuzzParseJWT: what is accepted has three segments in the one encoding that there
// is, an object of distinct members in each of the first two, and its input is the
// text itself.
func FuzzParseJWT(f *testing.F) {
	encode := base64.RawURLEncoding.EncodeToString
	for _, seed := range [][3]string{
		{`{"alg":"RS256","kid":"1","typ":"at+jwt"}`, `{"iss":"x","aud":["a"],"exp":1.5}`, "s"}, {`{"alg":"none"}`, `{}`, ""}, {`{"alg":"ES256","alg":"none"}`, `{}`, "s"},
		{`{"alg":"ES256","crit":[]}`, `{}`, "s"}, {`{"ALG":"ES256"}`, `{}`, "s"}, {`{"alg":1}`, `{}`, "s"}, {`[]`, `{}`, "s"}, {`{"alg":"x"} `, ` {"a":1}{}`, "s"}, {"\xff", "\u0000", "s"},
		{`{"alg":"x"}`, `{"iss":"\u0000","sub":"\ud800"}`, "s"}, {`{"alg":"x"}`, `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "s"},
	} {
		f.Add(encode([]byte(seed[0])) + "." + encode([]byte(seed[1])) + "." + encode([]byte(seed[2])))
	}
	for _, seed := range []string{"", "..", "a.b", "a.b.c.d", "e30.e30.AA", "e30.e30.AB", "e30=.e30.AA", "e30\n.e30.AA", strings.Repeat("A", 17<<10)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		jwt, err := token.ParseJWT(text)
		if err != nil {
			if !errors.Is(err, token.ErrInvalid) || jwt != nil {
				t.Fatalf("%q: %v %v", text, jwt, err)
			}
			return
		}
		parts := strings.Split(text, ".")
		if len(parts) != 3 || len(text) > 16<<10 || string(jwt.Input) != parts[0]+"."+parts[1] || len(jwt.Signature) == 0 || encode(jwt.Signature) != parts[2] {
			t.Fatalf("%q: %+v", text, jwt)
		}
		for _, part := range parts[:2] {
			raw, err := base64.RawURLEncoding.DecodeString(part)
			if err != nil || encode(raw) != part {
				t.Fatalf("%q: another text would decode to the same", text)
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal(raw, &object); err != nil || object == nil {
				t.Fatalf("%q: %s is no object: %v", text, raw, err)
			}
		}
		raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
		var standard map[string]json.RawMessage
		if err := json.Unmarshal(raw, &standard); err != nil || len(standard) != len(jwt.Claims) {
			t.Fatalf("%q: %d claims, encoding/json finds %d: %v", text, len(jwt.Claims), len(standard), err)
		}
		for name, value := range jwt.Claims {
			if !bytes.Equal(bytes.TrimSpace(value), bytes.TrimSpace(standard[name])) {
				t.Fatalf("%q: %s is %s, encoding/json says %s", text, name, value, standard[name])
			}
			if text, ok := jwt.Claims.Text(name); ok && (text == "" || strings.IndexByte(text, 0) >= 0) {
				t.Fatalf("%s is the text %q", name, text)
			}
			if at, ok := jwt.Claims.Time(name); ok && (at.Unix() < 0 || at.Year() > 40000) {
				t.Fatalf("%s is the time %v", name, at)
			}
			jwt.Claims.Texts(name)
		}
	})
}
