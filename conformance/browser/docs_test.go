package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSearchOfTheDocs types into the search of the reference, without a network but the server's:
// it finds guides by what they say, and operations by their names.
func TestSearchOfTheDocs(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.open(plain.Issuer + "/docs")
	visible := func(selector string) bool {
		return b.truth("[...document.querySelectorAll('" + selector + "')].some(e => e.offsetParent !== null)")
	}
	if visible("#written li") {
		t.Error("guides are among the operations before anybody searches")
	}
	b.fill("#search", "pg_dump")
	if !visible(`#written a[href="/docs/guides/howto/production"]`) || visible(`#written a[href="/docs/guides/howto/webhooks"]`) {
		t.Error("a guide is not found by a word of its own, or another one by none of its")
	}
	b.wantText("0 operations, 1 guide")
	b.leave(chromedp.KeyEvent(kb.Enter))
	b.see("#guide") // the one that was found
	b.fill("#search", "CreateTarget")
	b.leave(chromedp.KeyEvent(kb.Enter))
	if !visible("#operations li#CreateTarget") {
		t.Errorf("the search of a guide does not lead to what it finds: %s", b.describe())
	}
}
