package transfer

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Bar shows how far something is, on a line that it writes over. A nil Bar shows nothing.
type Bar struct {
	out   io.Writer
	width int
	now   func() time.Time
	shown time.Time
}

// NewBar returns a bar on a terminal, and nil where there is none: what is read by programs has
// no use for it.
func NewBar(file *os.File) *Bar {
	if !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	return &Bar{out: file, width: width, now: time.Now}
}

// count and bytesOf are how amounts are written.
func count(n uint64) string { return fmt.Sprint(n) }

func bytesOf(n uint64) string {
	const units = "kMGT"
	value, unit := float64(n), -1
	for value >= 1000 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if unit < 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %cB", value, units[unit])
}

// Show shows that so much is done of a total, which is 0 when nobody knows it.
func (b *Bar) Show(what string, done, total uint64, amount func(uint64) string) {
	if b == nil || b.now().Sub(b.shown) < 100*time.Millisecond {
		return
	}
	b.shown = b.now()
	line := fmt.Sprintf("%s %s", what, amount(done))
	if total > 0 {
		part := min(float64(done)/float64(total), 1)
		line = fmt.Sprintf("%s %s of %s ", what, amount(done), amount(total))
		if room := min(b.width-len(line)-8, 40); room > 5 {
			full := int(part * float64(room))
			line += "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]"
		}
		line += fmt.Sprintf(" %3.0f%%", part*100)
	}
	fmt.Fprintf(b.out, "\r\x1b[K%.*s", b.width-1, line)
}

// Clear takes the line away, so that something else can be written.
func (b *Bar) Clear() {
	if b == nil || b.shown.IsZero() {
		return
	}
	b.shown = time.Time{}
	fmt.Fprint(b.out, "\r\x1b[K")
}
