package transfer

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestABarWritesOverItsLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	now := time.Unix(1000, 0)
	bar := &Bar{out: &out, width: 60, now: func() time.Time { return now }}
	const clear = "\r\x1b[K"
	for _, step := range []struct {
		after       time.Duration
		done, total uint64
		want        string
	}{
		{0, 0, 0, clear + "exporting 0"},
		{50 * time.Millisecond, 500, 1000, ""}, // too soon
		{50 * time.Millisecond, 500, 1000, clear + "exporting 500 of 1000 [===============               ]  50%"},
		{time.Second, 2000, 1000, clear + "exporting 2000 of 1000 [=============================] 100%"},
	} {
		out.Reset()
		now = now.Add(step.after)
		bar.Show("exporting", step.done, step.total, count)
		if got := out.String(); got != step.want {
			t.Errorf("%d of %d: got %q, want %q", step.done, step.total, got, step.want)
		}
		if line := strings.TrimPrefix(out.String(), clear); len(line) >= bar.width {
			t.Errorf("the line has %d characters", len(line))
		}
	}
	out.Reset()
	bar.Clear()
	bar.Clear()
	if got := out.String(); got != clear {
		t.Errorf("clearing writes %q", got)
	}
}

func TestThereIsNoBarWhereNobodyLooks(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, file := range []*os.File{write, null} {
		bar := NewBar(file)
		if bar != nil {
			t.Errorf("%s has a bar", file.Name())
		}
		bar.Show("x", 1, 2, bytesOf)
		bar.Clear()
	}
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 1234567: "1.2 MB", 5e15: "5000.0 TB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
