package page

import (
	"crypto/sha256"
	_ "embed" // of the stylesheet
	"encoding/base64"

	"github.com/writ-id/writ/impl/core/compress"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

//go:embed style/style.css
var style []byte

//go:embed style/reveal.js
var reveal string

// RevealHash is what the content security policy of pages with a password lets run,
// and nothing else: the script that shows what was typed.
var RevealHash = func() string {
	hash := sha256.Sum256([]byte(reveal))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}()

// StyleURL names the stylesheet by its content, so that browsers may keep it.
var StyleURL = func() string {
	hash := sha256.Sum256(style)
	return flow.PathStyle + "?v=" + base64.RawURLEncoding.EncodeToString(hash[:9])
}()

// Style is the stylesheet.
var Style = &compress.Prepared{Plain: style}
