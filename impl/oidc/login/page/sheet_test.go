package page

import (
	"bytes"
	"html/template"
	"reflect"
	"strings"
	"testing"
)

// TestTwoPagesThatDifferAreTwoSheets sets each field of a page: what shows must be part of
// the key, or keep the page from being remembered.
func TestTwoPagesThatDifferAreTwoSheets(t *testing.T) {
	t.Parallel()
	whole := func() *Page {
		return &Page{Flow: flowMark, Fields: make([]Field, 1), Links: make([]Link, 1), Other: make([]Link, 1), Providers: make([]Link, 1)}
	}
	plain, ok := whole().key()
	if !ok {
		t.Fatal("a page of a login is not remembered")
	}
	filled := map[string]bool{"flow": true, "who": true, "Flow": true, "Style": true} // of the visit, and of the program
	looks := map[string]bool{"Words": true, "Brand": true}                            // scene, language and host, which are set below
	each := func(at reflect.Value, name string, p *Page) {
		if !at.CanSet() { // of this package alone
			at = reflect.NewAt(at.Type(), at.Addr().UnsafePointer()).Elem()
		}
		switch at.Kind() {
		case reflect.String:
			at.SetString("changed")
		case reflect.Int:
			at.SetInt(7)
		case reflect.Bool:
			at.SetBool(true)
		case reflect.Slice:
			at.Set(reflect.MakeSlice(at.Type(), at.Len()+1, at.Len()+1))
		default:
			t.Fatalf("%s: the test does not know what that is", name)
		}
		if key, ok := p.key(); ok && key == plain {
			t.Errorf("%s is not part of the key", name)
		}
	}
	kind := reflect.TypeFor[Page]()
	for i := range kind.NumField() {
		name, inner := kind.Field(i).Name, kind.Field(i).Type
		if filled[name] || looks[name] {
			continue
		}
		if inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct && (name == "Fields" || name == "Links" || name == "Other" || name == "Providers") {
			for j := range inner.Elem().NumField() {
				p := whole()
				each(reflect.ValueOf(p).Elem().Field(i).Index(0).Field(j), name+"."+inner.Elem().Field(j).Name, p)
			}
		}
		if inner.Kind() == reflect.Struct {
			for j := range inner.NumField() {
				p := whole()
				each(reflect.ValueOf(p).Elem().Field(i).Field(j), name+"."+inner.Field(j).Name, p)
			}
			continue
		}
		p := whole()
		each(reflect.ValueOf(p).Elem().Field(i), name, p)
	}
	for name, p := range map[string]*Page{"language": {Flow: flowMark, Words: Words{language: "de"}}, "host": {Flow: flowMark, Brand: brand{Host: "x"}}} {
		if key, ok := p.key(); ok && key == plain {
			t.Errorf("the %s is not part of the key", name)
		}
	}
}

// TestWhatASheetIsFilledWithIsEscaped compares a filled page with one that html/template
// renders whole.
func TestWhatASheetIsFilledWithIsEscaped(t *testing.T) {
	t.Parallel()
	const text = `<p id="who">{{.Who}}</p><input value="{{.Who}}"><a href="/login?flow={{.Flow}}">{{.Flow}}</a>`
	one := template.Must(template.New("").Parse(text))
	render := func(flow, who string) []byte {
		var page bytes.Buffer
		if err := one.Execute(&page, map[string]string{"Flow": flow, "Who": who}); err != nil {
			t.Fatal(err)
		}
		return page.Bytes()
	}
	s := newSheet(render(flowMark, whoMark))
	for _, who := range []string{"alice", `"><script>alert(1)</script>`, "a'b&c+d\x00e", "ü\u2028</p>", "{{.Flow}}", strings.Repeat("x", 500)} {
		got, err := s.fill("A-z_09.", who)
		if err != nil {
			t.Fatal(err)
		}
		if want := render("A-z_09.", who); !bytes.Equal(got, want) {
			t.Errorf("%q:\n%s\n%s", who, got, want)
		}
	}
}
