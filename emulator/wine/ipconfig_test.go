//go:build linux

package wine

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// testIPConfig asks ipconfig /all for what upstream's test of DNS on Windows looks for there, and for what scripts do:
// the servers, the search list, and no loopback. The program runs in a mount namespace with a resolv.conf of its own,
// as those of a container do.
func testIPConfig(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	const key = `HKLM\System\CurrentControlSet\Services\Tcpip\Parameters\Interfaces\{8e1d5c2a-6f5b-4a0e-9a57-706f7274686f}`
	if out, err := tools.Command(ctx, p, "reg", "add", key, "/v", "SearchList", "/d",
		"default.svc.cluster.local,example.com", "/f").CombinedOutput(); err != nil {
		t.Fatalf("reg add: %v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file,
		[]byte("nameserver 10.96.0.10\nnameserver 1.1.1.1\nsearch default.svc.cluster.local example.com\n"),
		0o644); err != nil {
		t.Fatal(err)
	}

	asked := tools.Command(ctx, p, "ipconfig", "/all")
	cmd := exec.CommandContext(ctx, "unshare",
		append([]string{"-m", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, file}, asked.Args...)...)
	cmd.Env, cmd.Dir = asked.Env, asked.Dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ipconfig /all: %v\n%s", err, out)
	}
	for _, want := range []string{
		`(?m)^   Host Name \. \. \. \. \. \. \. \. \. \. \. \. : \S+\r?$`,
		`(?m)^   DNS Suffix Search List\. \. \. \. \. \. : default\.svc\.cluster\.local\r?\n {39}example\.com\r?$`,
		`(?m)^   DNS Servers \. \. \. \. \. \. \. \. \. \. \. : 10\.96\.0\.10\r?\n {39}1\.1\.1\.1\r?$`,
		`(?m)^   Connection-specific DNS Suffix  \. : default\.svc\.cluster\.local\r?$`,
		`(?m)^   Subnet Mask \. \. .*: \d+\.\d+\.\d+\.\d+\r?$`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("ipconfig /all has no %s:\n%s", want, out)
		}
	}
	if regexp.MustCompile(`127\.0\.0\.1`).Match(out) {
		t.Errorf("the loopback is there, which Windows' does not show:\n%s", out)
	}
}
