package doctor

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheMemoryOfAContainerIsTheLeastOfItsGroups(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no groups", nil, 0},
		{"a namespace of its own", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "268435456\n"}, 256 * mebibyte},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		{"a service in a slice", map[string]string{
			"proc/self/cgroup": "0::/system.slice/writ.service\n", "sys/fs/cgroup/system.slice/memory.max": "104857600\n", "sys/fs/cgroup/system.slice/writ.service/memory.max": "209715200\n",
		}, 100 * mebibyte},
		{"version 1", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728\n"}, 128 * mebibyte},
		{"version 1 without limit", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := containerMemory(root); err != nil || got != test.want {
				t.Errorf("got %d, %v, want %d", got, err, test.want)
			}
		})
	}
}

func TestAContainerThatIsTooSmallIsToldOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		container int64
		want      []Level
	}{{0, []Level{OK}}, {512 * mebibyte, []Level{OK}}, {100 * mebibyte, []Level{OK, Warn}}} {
		d := &doctor{}
		d.memory(test.container, nil)
		if len(d.found) != len(test.want) || d.found[len(d.found)-1].Level != test.want[len(test.want)-1] {
			t.Errorf("%d: got %v, want %v", test.container, d.found, test.want)
		}
	}
}

// TestREL108_RoomThatTheDiskDoesNotHaveIsToldOf asks for more room for what moves than any disk has.
func TestREL108_RoomThatTheDiskDoesNotHaveIsToldOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct {
		dir   string
		bytes int64
		want  Level
	}{{dir, 1 << 60, Warn}, {dir + "/nothing", 0, Fail}} {
		d := &doctor{Config: Config{TransferDir: test.dir, TransferSpace: test.bytes}}
		d.space()
		if len(d.found) != 1 || d.found[0].Level != test.want {
			t.Errorf("%+v: got %v, want %v", test, d.found, test.want)
		}
	}
}
