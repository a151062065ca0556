package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installation is what happens to the package in a copy of this machine: it is installed,
// upgraded over a changed configuration, removed and purged.
const installation = `
set -eu
mkdir "$1/changes" "$1/work" "$1/all"
mount -t tmpfs none "$1/changes"
mkdir "$1/changes/upper" "$1/changes/work"
mount -t overlay none -o "lowerdir=/,upperdir=$1/changes/upper,workdir=$1/changes/work" "$1/all"
mount --bind /dev "$1/all/dev"
mkdir -p "$1/all/package"
cp "$2" "$1/all/package/writ.deb"
chroot "$1/all" /bin/sh -eu <<'INSIDE'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "$1: $2"; }
dpkg --force-depends -i /package/writ.deb >/package/log 2>&1 || { cat /package/log; exit 1; }
say user "$(id -nG writ) $(getent passwd writ | cut -d: -f7)"
for file in /etc/writ /etc/writ/writ.yaml /etc/writ/master-key.json /usr/bin/writ /usr/lib/systemd/system/writ.service; do
  say "$file" "$(stat -c '%U:%G %a' "$file")"
done
say version "$(writ version)"
say conffiles "$(dpkg-query -f '${Conffiles}' -W writ | awk '{print $1}' | xargs)"
grep -q database-url /package/log && say hint yes
sum=$(sha256sum /etc/writ/master-key.json)
echo 'addr: ":9999"' > /etc/writ/writ.yaml
dpkg --force-depends -i /package/writ.deb >/package/log 2>&1 </dev/null || { cat /package/log; exit 1; }
[ "$sum" = "$(sha256sum /etc/writ/master-key.json)" ] && say key kept
grep -q 9999 /etc/writ/writ.yaml && say configuration kept
dpkg -r writ >/package/log 2>&1
[ ! -e /usr/bin/writ ] && [ -e /etc/writ/writ.yaml ] && say removed yes
dpkg -P writ >/package/log 2>&1
[ ! -e /etc/writ/writ.yaml ] && [ -e /etc/writ/master-key.json ] && ! getent passwd writ >/dev/null && say purged yes
INSIDE
`

// TestTheDebianPackageInstallsUpgradesAndGoes does it for real, in a copy of this machine that
// only the test sees.
func TestTheDebianPackageInstallsUpgradesAndGoes(t *testing.T) {
	t.Parallel()
	asRoot(t)
	installed(t, "dpkg", "it comes with Debian")
	folder := t.TempDir()
	if out, err := execute(t, "unshare", "--mount", "sh", "-ec", "mkdir "+folder+"/a && mount -t tmpfs none "+folder+"/a && mkdir "+folder+"/a/u "+folder+"/a/w "+folder+"/b && mount -t overlay none -o lowerdir=/,upperdir="+folder+"/a/u,workdir="+folder+"/a/w "+folder+"/b"); err != nil {
		t.Skipf("this machine makes no overlay of itself: %v %s", err, out)
	}
	tool(t, "bin/nfpm")
	must(t, "deploy/debian/package.sh", tool(t, "bin/writ"), "amd64", "0.1.0-dev.1", folder)
	file := filepath.Join(folder, "writ_0.1.0-dev.1_amd64.deb")
	script := filepath.Join(folder, "installation")
	if err := os.WriteFile(script, []byte(installation), 0o600); err != nil {
		t.Fatal(err)
	}
	out := must(t, "unshare", "--mount", "--propagation", "private", "sh", script, folder, file)
	for _, want := range []string{
		"user: writ /usr/sbin/nologin",
		"/etc/writ: root:writ 750",
		"/etc/writ/writ.yaml: root:writ 640",
		"/etc/writ/master-key.json: root:root 600",
		"/usr/bin/writ: root:root 755",
		"/usr/lib/systemd/system/writ.service: root:root 644",
		"conffiles: /etc/default/writ /etc/writ/writ.yaml",
		"hint: yes",
		"key: kept",
		"configuration: kept",
		"removed: yes",
		"purged: yes",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestAPackageIsTheSameWhenItIsMadeAgain: the same binary and commit, another time.
func TestAPackageIsTheSameWhenItIsMadeAgain(t *testing.T) {
	t.Parallel()
	tool(t, "bin/nfpm")
	var sums []string
	for range 2 {
		folder := t.TempDir()
		must(t, "deploy/debian/package.sh", tool(t, "bin/writ"), "amd64", "0.1.0-dev.1", folder)
		sums = append(sums, strings.Fields(must(t, "sha256sum", filepath.Join(folder, "writ_0.1.0-dev.1_amd64.deb")))[0])
	}
	if sums[0] != sums[1] {
		t.Errorf("got %v", sums)
	}
}
