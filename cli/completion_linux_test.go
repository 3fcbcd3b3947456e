package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// run runs a command line and returns what it prints.
func run(t *testing.T, args ...string) string {
	t.Helper()
	root := Commands()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	return out.String()
}

// TestCompletion: each shell gets a script that calls this program, and the program answers with commands, flags,
// values and hosts.
func TestCompletion(t *testing.T) {
	for shell, mark := range map[string]string{
		"bash": "complete -o default -F __start_porthole porthole", "zsh": "#compdef porthole",
		"fish": "complete -c porthole", "powershell": "Register-ArgumentCompleter -CommandName 'porthole'",
	} {
		if script := run(t, "completion", shell); !strings.Contains(script, mark) ||
			!strings.Contains(script, "__complete") {
			t.Errorf("%s: the script has %d bytes and no %q", shell, len(script), mark)
		}
	}

	dir := t.TempDir()
	for _, name := range []string{"h1", "h2"} {
		if err := os.MkdirAll(filepath.Join(dir, "hosts", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"comp":                               "completion",
		"join --disc":                        "--discovery-file --discovery-token --discovery-token-ca-cert-hash --discovery-token-unsafe-skip-ca-verification",
		"join --wait ":                       "none ready registered",
		"join --network ":                    "bgp flannel host-gateway none ovn tor vxlan",
		"manifests --mode h":                 "host-gateway",
		"manifests --output ":                "json text yaml",
		"routes --mode v":                    "vxlan",
		"path --protocol ":                   "sctp tcp udp",
		"version ":                           "",
		"version -o ":                        "json text",
		"service start kubel":                "kubelet",
		"up --network o":                     "ovn",
		"up --windows-build 2":               "20348 26100",
		"host create --build 1":              "17763",
		"host create --runtime n":            "none",
		"host create --hns-profile ws2022-u": "ws2022-unkind",
		"help host ev":                       "events",
		"host reboot --profile ":             "all default listed",
		"host reboot --keep R":               "RemoteEndpoint Rule",
		"host reboot --lose Rul":             "Rule",
		"host ctr win01 ima":                 "images",
		"host hns win01 d":                   "dns dump",
		"host run --dir " + dir + " h":       "h1 h2",
		"host delete --dir " + dir + " ":     "h1 h2",
	} {
		args := strings.Split(line, " ")
		var got []string
		for _, l := range strings.Split(run(t, append([]string{"__completeNoDesc"}, args...)...), "\n") {
			if l != "" && !strings.HasPrefix(l, ":") && strings.HasPrefix(l, args[len(args)-1]) {
				got = append(got, l)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: completed by %q, want %q", line, got, want)
		}
	}
}
