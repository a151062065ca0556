package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take on a busy machine.
const patience = 15 * time.Second

// tab is a tab of a browser that nobody used before. It belongs to one test.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // what the browser complained about
}

// newTab opens a browser with cookies of its own.
func newTab(t *testing.T) *tab {
	t.Helper()
	return openTab(t, chrome, chromedp.WithNewBrowserContext())
}

// another opens a second tab of the same browser.
func (b *tab) another() *tab {
	b.Helper()
	return openTab(b.T, b.ctx)
}

func openTab(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(parent, options...)
	t.Cleanup(closeTab)
	b := &tab{T: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	b.do(
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
			return err
		}),
		chromedp.EmulateViewport(1280, 800),
	)
	return b
}

// listen keeps what the browser says of pages that do what they must not: scripts
// that fail, and whatever a content security policy keeps out.
func (b *tab) listen(event any) {
	problem := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
			problem = e.Entry.Text
		}
	case *runtime.EventExceptionThrown:
		problem = e.ExceptionDetails.Text
	case *page.EventJavascriptDialogOpening:
		problem = "a dialog: " + e.Message
	}
	if problem != "" {
		b.mu.Lock()
		b.problems = append(b.problems, problem)
		b.mu.Unlock()
	}
}

// do runs actions, each within patience.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	// The first run is what the life of the tab hangs on, so it has no limit.
	if err := chromedp.Do(b.ctx); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatalf("%v, at %s", err, b.describe())
	}
}

// eval returns what a script gives; what fails is told by ok.
func eval[T any](b *tab, script string) (value T, ok bool) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	return value, err == nil
}

// truth reports whether a script gives true.
func (b *tab) truth(script string) bool {
	yes, ok := eval[bool](b, script)
	return ok && yes
}

// text returns a property of the first element that a selector matches.
func (b *tab) text(selector, property string) string {
	value, _ := eval[string](b, fmt.Sprintf("(document.querySelector(%q) || {})[%q] || ''", selector, property))
	return value
}

func (b *tab) address() string {
	value, _ := eval[string](b, "location.href")
	return value
}

// describe names the page, for the message of a failure.
func (b *tab) describe() string {
	body, _ := eval[string](b, "document.body ? document.body.innerText : ''")
	return fmt.Sprintf("%.120s: %q", b.address(), body)
}

// wait waits until a script gives true.
func (b *tab) wait(script, what string) {
	b.Helper()
	for deadline := time.Now().Add(patience); !b.truth(script); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("no %s at %s", what, b.describe())
		}
	}
}

// see waits for an element.
func (b *tab) see(selector string) {
	b.Helper()
	b.wait(fmt.Sprintf("document.readyState === 'complete' && !!document.querySelector(%q)", selector), selector)
}

// open goes to an address, and to where that leads.
func (b *tab) open(address string) {
	b.Helper()
	b.do(chromedp.Navigate(address))
}

// leave does what leads to another page, and waits until that is there.
func (b *tab) leave(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if _, ok := eval[bool](b, "document.left = true"); !ok {
		b.Fatalf("no page to leave at %s", b.describe())
	}
	b.do(actions...)
	b.wait("!document.left && document.readyState === 'complete'", "next page")
}

// click clicks on what leads to another page.
func (b *tab) click(selector string) {
	b.Helper()
	b.see(selector)
	b.leave(chromedp.Click(chromedp.CSS(selector)))
}

// clickText clicks on the link or button with a text.
func (b *tab) clickText(text string) {
	b.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('a, button')].find(e => e.textContent.includes(%q))", text)
	b.wait("!!"+find, "link or button "+text)
	b.leave(chromedp.Click(chromedp.JSPath(find)))
}

// fill types into a field, over what is there.
func (b *tab) fill(selector, text string) {
	b.Helper()
	b.see(selector)
	eval[bool](b, fmt.Sprintf("document.querySelector(%q).select(), true", selector))
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
}

// submit sends the form of the page.
func (b *tab) submit() {
	b.Helper()
	b.click("#submit")
}

// press presses keys.
func (b *tab) press(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// arrive waits until the browser is back at the relying party.
func (b *tab) arrive(p *party) {
	b.Helper()
	b.wait(fmt.Sprintf("location.href.startsWith(%q) && document.readyState === 'complete'", p.home), "way back to the client")
}

// name and password sign in on the two pages.
func (b *tab) name(p person) {
	b.Helper()
	b.fill("#loginName", p.LoginName)
	b.submit()
}

func (b *tab) password(p person) {
	b.Helper()
	b.fill("#password", p.Password)
	b.submit()
}

// wantText fails the test unless the page says something.
func (b *tab) wantText(want string) {
	b.Helper()
	if body, _ := eval[string](b, "document.body.innerText"); !strings.Contains(body, want) {
		b.Errorf("got a page without %q: %s", want, b.describe())
	}
}

// withoutScripts turns scripts off, as some people do.
func (b *tab) withoutScripts() {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// loseCookies forgets the cookies, as a browser does that takes none.
func (b *tab) loseCookies() {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.ClearBrowserCookies, cdp.Empty{})
		return err
	}))
}

// looks are how a page is pictured.
var looks = []struct {
	width, height int64
	scheme        string
}{{390, 844, "light"}, {390, 844, "dark"}, {1280, 800, "light"}, {1280, 800, "dark"}}

// picture keeps the page in all looks, and checks what every page has to be: no
// wider than the window, in its own style, and nothing for the browser to
// complain about.
func (b *tab) picture(name string) {
	b.Helper()
	b.see("#main")
	for _, look := range looks {
		b.do(
			chromedp.EmulateViewport(look.width, look.height),
			chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
				_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
				})
				return err
			}),
		)
		if wide, _ := eval[int64](b, "document.documentElement.scrollWidth"); wide > look.width {
			b.Errorf("%s is %d pixels wide in a window of %d", name, wide, look.width)
		}
		if styled, _ := eval[string](b, "getComputedStyle(document.body).borderTopWidth"); styled == "0px" || styled == "" {
			b.Errorf("%s has no style", name)
		}
		var image []byte
		b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			yes := true
			shot, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &yes, OptimizeForSpeed: &yes})
			image = shot.Data
			return err
		}))
		file := filepath.Join(pictures, fmt.Sprintf("%s-%d-%s.png", name, look.width, look.scheme))
		if err := os.WriteFile(file, image, 0o644); err != nil { //nolint:gosec // to be looked at
			b.Fatal(err)
		}
	}
	b.quiet()
}

// quiet fails the test when the browser complained.
func (b *tab) quiet() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		b.Errorf("the browser says: %s", problem)
	}
	b.problems = nil
}
