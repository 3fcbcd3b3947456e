//go:build linux

package wine

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

// testPing has our ping.exe ask this machine, a name that nobody has, and without end, as many tests of others do to
// have a program that runs.
func testPing(ctx context.Context, t *testing.T, tools Tools, p Prefix) {
	out, err := tools.Command(ctx, p, "ping", "-n", "2", "-l", "40", "127.0.0.1").Output()
	for _, want := range []string{"Pinging 127.0.0.1 with 40 bytes of data:", "Reply from 127.0.0.1: bytes=40 time",
		"Packets: Sent = 2, Received = 2, Lost = 0 (0% loss),"} {
		if err != nil || !bytes.Contains(out, []byte(want)) {
			t.Errorf("ping does not say %q: %v\n%s", want, err, out)
		}
	}
	for args, want := range map[string]string{
		"name.invalid":   "Ping request could not find host name.invalid. Please check the name and try again.",
		"-n 0 127.0.0.1": "Bad value for option -n, valid range is from 1 to 4294967295.",
		"-t":             "IP address must be specified.",
	} {
		if out, err := tools.Command(ctx, p, "ping", strings.Fields(args)...).Output(); err == nil ||
			strings.TrimSpace(string(out)) != want {
			t.Errorf("ping %s: %v\n%s", args, err, out)
		}
	}

	if allowed, err := os.ReadFile("/proc/sys/net/ipv4/ping_group_range"); err == nil &&
		strings.Join(strings.Fields(string(allowed)), " ") == "1 0" {
		refused := tools.Command(ctx, p, "ping", "-n", "1", "127.0.0.1")
		refused.Args = append([]string{"setpriv", "--bounding-set", "-net_raw"}, refused.Args...)
		refused.Path = "/usr/bin/setpriv"
		out, err := refused.Output()
		if refused.ProcessState.ExitCode() != 1 ||
			!strings.HasSuffix(strings.TrimSpace(string(out)), "Unable to contact IP driver. General failure.") {
			t.Errorf("without the right: %v\n%s", err, out)
		}
	}

	endless := tools.Command(ctx, p, "ping", "-t", "127.0.0.1")
	lines, err := endless.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := endless.Start(); err != nil {
		t.Fatal(err)
	}
	replies := 0
	for scanner := bufio.NewScanner(lines); replies < 5 && scanner.Scan(); { // one more than without -t
		if strings.HasPrefix(scanner.Text(), "Reply from 127.0.0.1: ") {
			replies++
		}
	}
	if replies < 5 {
		t.Errorf("ping -t ends after %d replies", replies)
	}
	_ = endless.Process.Kill()
	_ = endless.Wait() // killed
}
