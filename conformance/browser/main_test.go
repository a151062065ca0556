// Package browser signs in with a real browser, as people do: Chromium in front of
// the login pages, and a relying party made of go-oidc and golang.org/x/oauth2 that
// waits for it on a port of its own.
//
// What is looked at is what people see and do: words, focus, keys, the address that
// the browser ends at. No page may make the browser report a script or a style that
// its content security policy keeps out, or be wider than the window.
//
// Every page is kept as a picture, 390 and 1280 pixels wide, light and dark, in
// the folder that WRIT_TEST_SCREENSHOTS names, or else in a temporary one whose
// path is printed.
//
// The providers are three `writ dev` of this commit, one of them with --tls, one that people
// come to from identity providers (external_test.go);
// WRIT_TEST_BINARY names another program to start. WRIT_TEST_CHROMIUM names the
// browser when it is not chromium on the path.
package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/writ-id/writ/conformance/harness"
)

// What the tests share.
var (
	// house has identity providers: plain, and those that tests stand in for.
	plain, house, secure *server
	chrome               context.Context
	pictures             string
)

func TestMain(m *testing.M) { harness.Main(suite{m}) }

// suite is the tests, once the browser and the providers run.
type suite struct{ *testing.M }

// Run implements harness.Suite.
func (s suite) Run() int {
	code, err := run(s.M)
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = max(code, 1)
	}
	return code
}

func run(m *testing.M) (code int, err error) {
	program, err := findChromium()
	if err != nil {
		return 1, err
	}
	if pictures, err = pictureFolder(); err != nil {
		return 1, err
	}
	if err := startServers(); err != nil {
		return 1, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("accept-lang", "en-US"), chromedp.Flag("hide-scrollbars", true),
		// A process for each of two sites and every test is most of the time.
		chromedp.Flag("disable-features", "Translate,IsolateOrigins,site-per-process"), chromedp.Flag("disable-gpu", true),
		// Its sandbox works neither for root nor in most containers, and all it opens is ours.
		chromedp.NoSandbox)
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	first, closeAll := chromedp.NewContext(allocated)
	defer closeAll()
	if err := chromedp.Do(first); err != nil {
		return 1, fmt.Errorf("start %s: %w", program, err)
	}
	chrome = first
	// A test mostly waits for the browser, so there may be more of them than cores.
	if err := flag.Set("test.parallel", "6"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func findChromium() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"}
	if name := os.Getenv("WRIT_TEST_CHROMIUM"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Chromium here: `apt-get install chromium`, or name one in WRIT_TEST_CHROMIUM (looked for %q)", names)
}

func pictureFolder() (string, error) {
	if dir := os.Getenv("WRIT_TEST_SCREENSHOTS"); dir != "" {
		return dir, os.MkdirAll(dir, 0o755)
	}
	dir, err := os.MkdirTemp("", "writ-pages-")
	fmt.Fprintln(os.Stderr, "browser: pictures of the pages are in", dir)
	return dir, err
}
