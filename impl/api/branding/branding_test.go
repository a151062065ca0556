package branding_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const settings = "/settings/v3alpha/branding"

// resolved returns the properties of a context, each as its value and where it is from.
func resolved(c *servertest.Cluster, node int, user, query string) map[string]string {
	c.Helper()
	got := c.Call(node, "a.example", user, "GET", settings+query, "")
	if got.Status != 200 {
		c.Fatalf("%s: got %d %s", query, got.Status, got.Body)
	}
	all := map[string]string{}
	for name, one := range got.Object(c.T, "settings") {
		property, from := one.(map[string]any), "itself"
		if owner, ok := property["owner"].(map[string]any); ok {
			from = strings.ToLower(strings.TrimPrefix(owner["type"].(string), "OWNER_TYPE_"))
		}
		value := property["value"]
		if stored, ok := value.(map[string]any); ok {
			value = stored["url"]
		}
		all[name] = fmt.Sprint(value, " of ", from)
	}
	return all
}

// TestWhatAContextDoesNotSayIsInheritedPropertyByProperty compares random changes in the
// system, an instance and two of its organizations, on two nodes, with a model.
func TestWhatAContextDoesNotSayIsInheritedPropertyByProperty(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	contexts := []struct{ user, query, level string }{
		{"system", "?ctx.system=true", "system"}, {"owner", "", "instance"},
		{"owner", "?ctx.orgId=" + c.Org("A"), "org"}, {"owner", "?ctx.orgId=" + c.Org("A2"), "org"},
	}
	parents := [][]int{{0}, {1, 0}, {2, 1, 0}, {3, 1, 0}}
	properties := map[string][]string{
		"primaryColorLight": {"#1d4d45", "#402060", "#00306a"}, "fontColorDark": {"#ffffff", "#eeeeee"}, "termsLink": {"https://a.example/t", "http://b.example/"},
		"hideProductName": {`{"value":true}`, `{"value":false}`},
	}
	defaults := map[string]string{"primaryColorLight": "#1d4d45", "fontColorDark": "#ece7de", "termsLink": "", "hideProductName": "false"}
	said := make([]map[string]string, 4)
	for i := range said {
		said[i] = map[string]string{}
	}
	rnd := rand.New(rand.NewPCG(12, 1))
	for round := range 60 {
		at, node := rnd.IntN(4), rnd.IntN(2)
		var body []string
		for name, values := range properties {
			switch rnd.IntN(4) {
			case 0:
				delete(said[at], name)
				if values[0][0] == '{' {
					body = append(body, fmt.Sprintf("%q:{}", name))
				} else {
					body = append(body, fmt.Sprintf(`%q:""`, name))
				}
			case 1:
				value := values[rnd.IntN(len(values))]
				said[at][name] = value
				if value[0] == '{' {
					body = append(body, fmt.Sprintf("%q:%s", name, value))
				} else {
					body = append(body, fmt.Sprintf("%q:%q", name, value))
				}
			}
		}
		if got := c.Call(node, "a.example", contexts[at].user, "PATCH", settings+contexts[at].query, "{"+strings.Join(body, ",")+"}"); got.Status != 200 {
			t.Fatalf("round %d: %v: got %d %s", round, body, got.Status, got.Body)
		}
		for i, context := range contexts {
			got := resolved(c, 1-node, context.user, context.query)
			for name := range properties {
				want := defaults[name] + " of system"
				for _, parent := range parents[i] {
					if value, ok := said[parent][name]; ok {
						want = strings.TrimSuffix(strings.TrimPrefix(value, `{"value":`), "}") + " of " + contexts[parent].level
						if parent == i {
							want = strings.TrimSuffix(want, contexts[parent].level) + "itself"
						}
						break
					}
				}
				if got[name] != want {
					t.Fatalf("round %d, %v in %q: %s of %q is %s, want %s", round, body, contexts[at].query, name, context.query, got[name], want)
				}
			}
		}
	}
}

func TestABrandingThatChangesNothingIsNoEvent(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	details := func(body string) string {
		return fmt.Sprint(c.Must("owner", "PATCH", settings, body).Object(t, "details"))
	}
	details(`{}`)
	details(`{"termsLink":"","logoLight":{},"hideProductName":{}}`)
	if n := c.Value("SELECT count(*)::text FROM settings"); n != "0" {
		t.Errorf("nothing left %s rows", n)
	}
	set := details(`{"primaryColorLight":"#402060","hideProductName":{"value":false}}`)
	if again := details(`{"primaryColorLight":"#402060","helpLink":""}`); again != set {
		t.Errorf("got %s, then %s", set, again)
	}
	if got := c.Value("SELECT string_agg(payload::text, ' ') FROM events WHERE event_type = 'settings.branding.set'"); got != `{"hideProductName": {"value": false}, "primaryColorLight": "#402060"}` {
		t.Errorf("events: %s", got)
	}
}

func TestColoursThatCannotBeReadTogetherAreRefusedWithTheirContrast(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	org := "?ctx.orgId=" + c.Org("A")
	for _, step := range []struct{ query, body, field, ratio string }{
		{"", `{"fontColorLight":"#777777","backgroundColorLight":"#ffffff"}`, "fontColorLight", "4.47:1"},
		{"", `{"fontColorLight":"#767676","backgroundColorLight":"#ffffff"}`, "", ""}, // 4.54
		{"", `{"backgroundColorLight":"#808080"}`, "backgroundColorLight", "1.15:1"},
		{"", `{"primaryColorDark":"#444444"}`, "primaryColorDark", "1.8"},
		{"", `{"warnColorLight":"#ff8888"}`, "warnColorLight", ":1"},
		{org, `{"primaryColorLight":"#ffff00"}`, "primaryColorLight", "1.07:1"},
		{org, `{"primaryColorLight":"#ffff00","backgroundColorLight":"#000000","fontColorLight":"#ffffff","warnColorLight":"#ff9090"}`, "", ""},
		{org, `{"backgroundColorLight":""}`, "backgroundColorLight", ":1"}, // black of the instance is not what its yellow is for
		{org, `{"backgroundColorLight":"","primaryColorLight":"","fontColorLight":"","warnColorLight":""}`, "", ""},
	} {
		got := c.Do("owner", "PATCH", settings+step.query, step.body)
		switch {
		case step.field == "" && got.Status != 200:
			t.Errorf("%s: got %d %s", step.body, got.Status, got.Body)
		case step.field != "":
			c.IsRefused(got, step.body, 400, "CONTRAST_TOO_LOW")
			if !strings.Contains(got.Body, `"field":"`+step.field+`"`) || !strings.Contains(got.Body, step.ratio) {
				t.Errorf("%s: got %s, want the field %s and %s", step.body, got.Body, step.field, step.ratio)
			}
		}
	}
	for _, body := range []string{
		`{"fontColorLight":"red"}`, `{"fontColorLight":"#fff"}`, `{"fontColorLight":"#00000g"}`, `{"fontColorLight":"#000000;}"}`, `{"fontColorLight":null}`,
		`{"termsLink":"javascript:alert(1)"}`, `{"helpLink":"//x.example"}`, `{"privacyLink":"https://a.example/\n"}`, `{"privacyLink":"ftp://a.example/"}`, `{"termsLink":"data:text/html,x"}`,
	} {
		if got := c.Do("owner", "PATCH", settings, body); got.Status != 400 {
			t.Errorf("%s: got %d %s", body, got.Status, got.Body)
		}
	}
}

// drawing is a picture that is not all of one colour.
func drawing(width, height int) image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range m.Pix {
		m.Pix[i] = uint8(i * i >> 7)
	}
	m.Set(0, 0, color.White)
	return m
}

func encoded(t *testing.T, how string, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	if how == "png" {
		err = png.Encode(&b, m)
	} else {
		err = jpeg.Encode(&b, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func upload(name string, content []byte) string {
	return fmt.Sprintf(`{%q:{"content":%q}}`, name, base64.StdEncoding.EncodeToString(content))
}

func TestSEC149_APictureIsDrawnAnewAndServedAsAPicture(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	const script = "<script>alert(1)</script>"
	fetch := func(host, path string) servertest.Reply { return c.Call(0, host, "", "GET", path, "") }
	url := func(name string) string {
		return strings.TrimSuffix(resolved(c, 0, "owner", "")[name], " of itself")
	}
	for name, content := range map[string][]byte{
		"logoLight": append(encoded(t, "png", drawing(900, 300)), script...), "logoDark": append(encoded(t, "jpeg", drawing(90, 30)), script...), "icon": encoded(t, "png", drawing(64, 64)),
	} {
		c.Must("owner", "PATCH", settings, upload(name, content))
		path := url(name)
		got := fetch("a.example", path)
		if got.Status != 200 || got.Header.Get("Content-Type") != "image/png" || strings.Contains(got.Body, "script") || len(got.Header.Values("Set-Cookie")) > 0 ||
			got.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment") {
			t.Fatalf("%s at %s: got %d %v", name, path, got.Status, got.Header)
		}
		drawn, err := png.Decode(strings.NewReader(got.Body))
		if err != nil {
			t.Fatal(err)
		}
		if size := drawn.Bounds().Size(); name == "logoLight" && size != image.Pt(504, 168) {
			t.Errorf("%s is drawn as %v", name, size)
		}
		if other := fetch("b.example", path); other.Status != 404 {
			t.Errorf("the other tenant serves %s: %d", name, other.Status)
		}
	}
	before := url("logoLight")
	c.Must("owner", "PATCH", settings, `{"logoLight":{}}`)
	if got := fetch("a.example", before); got.Status != 404 {
		t.Errorf("what was taken back is served: %d", got.Status)
	}
	for what, content := range map[string][]byte{
		"SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), "HTML": []byte("<!doctype html>" + script), "GIF": []byte("GIF89a" + script),
		"a broken PNG": encoded(t, "png", drawing(9, 9))[:40], "a PNG that is none": []byte("\x89PNG\r\n\x1a\n" + script), "a WebP that is none": []byte("RIFF\x10\x00\x00\x00WEBPVP8 " + script),
		"too many pixels": encoded(t, "png", image.NewPaletted(image.Rect(0, 0, 4096, 4000), color.Palette{color.White})), "text": []byte("hello"),
	} {
		got := c.Do("owner", "PATCH", settings, upload("icon", content))
		if got.Status != 400 || !strings.Contains(got.Body, `"field":"icon.content"`) {
			t.Errorf("%s: got %d %s", what, got.Status, got.Body)
		}
	}
	if got := c.Do("owner", "PATCH", settings, upload("icon", make([]byte, 512<<10+1))); got.Status != 400 {
		t.Errorf("too long: got %d %s", got.Status, got.Body)
	}
	for _, path := range []string{"/assets/", "/assets/x.png", "/assets/../x", strings.TrimSuffix(url("icon"), ".png"), url("icon") + "/"} {
		if got := fetch("a.example", path); got.Status == 200 {
			t.Errorf("%s is served", path)
		}
	}
	if got := c.Call(0, "a.example", "", "POST", url("icon"), ""); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", got.Status)
	}
}

// TestREL063_PagesOfEveryNodeLookLikeWhatWasSet: those of the node that was told at once.
func TestREL063_PagesOfEveryNodeLookLikeWhatWasSet(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	has := func(node int, color string) bool {
		return strings.Contains(c.Call(node, "a.example", "", "GET", "/login", "").Body, "--accent:"+color)
	}
	for _, color := range []string{"#402060", "#00306a"} {
		if has(0, color) || has(1, color) {
			t.Fatalf("%s is there before it was set", color)
		}
		c.Must("owner", "PATCH", settings, `{"primaryColorLight":"`+color+`"}`)
		if !has(0, color) {
			t.Errorf("the node that was told does not show %s", color)
		}
		c.WithinASecond("the other node shows "+color, func() bool { return has(1, color) })
	}
	if other := c.Call(0, "b.example", "", "GET", "/login", "").Body; strings.Contains(other, "<style>") {
		t.Error("the other tenant is coloured too")
	}
}

func TestSEC238_WhoSetsBrandingHoldsPolicyWriteThere(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	a, a2 := "?ctx.orgId="+c.Org("A"), "?ctx.orgId="+c.Org("A2")
	for _, test := range []struct {
		user, query string
		read, write int
	}{
		{"nobody", "", 403, 403}, {"nobody", a, 403, 403}, {"orgowner", a, 200, 200}, {"orgowner", a2, 403, 403}, {"orgowner", "", 403, 403},
		{"owner", "", 200, 200}, {"owner", a2, 200, 200}, {"owner", "?ctx.system=true", 403, 403}, {"system", "?ctx.system=true", 200, 200},
		{"owner", "?ctx.instanceId=" + c.Instance("b"), 404, 404}, {"wrong", "", 401, 401},
	} {
		if got := c.Do(test.user, "GET", settings+test.query, ""); got.Status != test.read {
			t.Errorf("%s reads %q: got %d %s, want %d", test.user, test.query, got.Status, got.Body, test.read)
		}
		if got := c.Do(test.user, "PATCH", settings+test.query, `{"termsLink":"https://x.example/"}`); got.Status != test.write {
			t.Errorf("%s writes %q: got %d %s, want %d", test.user, test.query, got.Status, got.Body, test.write)
		}
	}
	c.Must("owner", "PUT", "/v2/features/instance", `{"multitenancySettings":false}`)
	c.Refused("owner", "PATCH", settings, `{}`, 400, "FEATURE_DISABLED")
}

// progressive is a progressive JPEG of one grey, which goes over its pixels so many times; each
// time takes a header and a code that says how many of the blocks have nothing new.
func progressive(width, height, scans int) []byte {
	b := []byte{0xff, 0xd8, 0xff, 0xdb, 0, 67, 0}
	b = append(b, bytes.Repeat([]byte{1}, 64)...)
	b = append(b, 0xff, 0xc2, 0, 11, 8, byte(height>>8), byte(height), byte(width>>8), byte(width), 1, 1, 0x11, 0)
	table := func(class byte, code byte) { // one code of one bit
		b = append(append(b, 0xff, 0xc4, 0, 20, class, 1), make([]byte, 15)...)
		b = append(b, code)
	}
	table(0x00, 0)
	table(0x10, 0xe0) // end of a band of 1<<14 blocks and more
	blocks := (width + 7) / 8 * ((height + 7) / 8)
	b = append(b, 0xff, 0xda, 0, 8, 1, 1, 0x00, 0, 0, 0x00)
	b = append(b, make([]byte, blocks/8+1)...) // a difference of no bits each
	for n := 1; n < scans; n++ {
		b = append(b, 0xff, 0xda, 0, 8, 1, 1, 0x00, 1, 63, 0x00)
		for left := blocks; left > 0; left -= 1 << 14 {
			b = append(b, 0, 0) // the code, and fourteen bits that add nothing to its number
		}
	}
	return append(b, 0xff, 0xd9)
}

// TestSEC149_AnUploadComesToLittleWork has progressive pictures with as many scans as encoders
// make, and with so many that a short file is long work.
func TestSEC149_AnUploadComesToLittleWork(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	upload := func(file []byte) string {
		return `{"icon":{"content":"` + base64.StdEncoding.EncodeToString(file) + `"}}`
	}
	usual := progressive(400, 300, 10)
	if _, err := jpeg.Decode(bytes.NewReader(usual)); err != nil {
		t.Fatalf("the picture is none: %v", err)
	}
	c.Must("owner", "PATCH", settings, upload(usual))
	for _, bomb := range [][]byte{progressive(400, 300, 33), progressive(2048, 2048, 3000)} {
		c.Refused("owner", "PATCH", settings, upload(bomb), http.StatusBadRequest, "IMAGE_TOO_LARGE")
	}
}
