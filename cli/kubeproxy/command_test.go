package kubeproxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/cli/program"
)

// parse resolves a command line and a configuration file as the command does.
func parse(t *testing.T, file string, env map[string]string, args ...string) (*settings, error) {
	t.Helper()
	fs, values := pflag.NewFlagSet("kube-proxy", pflag.ContinueOnError), map[string]*value{}
	register(fs, values)
	if err := fs.Parse(args); err != nil {
		return nil, program.ExplainUnknown(fs, gone, err)
	}
	return resolve(given(fs, values), host{
		getenv:   func(name string) string { return env[name] },
		hostname: func() (string, error) { return "WIN-Host", nil },
		readFile: func(string) ([]byte, error) {
			if file == "" {
				return nil, os.ErrNotExist
			}
			return []byte(file), nil
		},
	})
}

func upstreamFlags(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/upstream-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			out[name] = v
		}
	}
	return out
}

// TestEveryUpstreamFlag: every flag is accepted alone and with all others, spelled with dashes or underscores.
func TestEveryUpstreamFlag(t *testing.T) {
	flags := upstreamFlags(t)
	if len(flags) < 60 {
		t.Fatalf("only %d flags in the list", len(flags))
	}

	var all []string
	for name, v := range flags {
		for _, arg := range []string{"--" + name + "=" + v, "--" + strings.ReplaceAll(name, "-", "_") + "=" + v} {
			if _, err := parse(t, "", nil, arg); err != nil {
				t.Errorf("%s: %v", arg, err)
			}
		}
		all = append(all, "--"+name+"="+v)
	}

	s, err := parse(t, "", nil, all...)
	if err != nil {
		t.Fatal(err)
	}

	warnings := strings.Join(s.warnings, "\n")
	if len(s.warnings) != 2 || !strings.Contains(warnings, "--ipvs-scheduler") ||
		!strings.Contains(warnings, "WinDSR") {
		t.Errorf("warnings, want one for Linux and one for gates:\n%s", warnings)
	}

	ours := []string{"config", "write-config-to", "service-interface", "state-file", "probe-services", "node-access",
		"overlay-relay",
		"log-file", "log-file-max-size", "log-file-max-files"}
	for _, o := range options() {
		if _, listed := flags[o.name]; !listed && !slices.Contains(ours, o.name) {
			t.Errorf("--%s is neither upstream's nor known as ours", o.name)
		}
	}
}

// Rows 1.17, 1.78, 1.85.
func TestSettings(t *testing.T) {
	const file = `
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: C:\k\config, qps: 7, burst: 9}
hostnameOverride: File01
bindAddress: "::"
mode: kernelspace
winkernel: {networkName: flannel.4096, sourceVip: 10.244.2.200, enableDSR: true, forwardHealthCheckVip: true}
nodePortAddresses: ["10.0.0.0/8", "fd00::/8"]
clusterCIDR: 10.244.0.0/16,fd01::/56
iptables: {syncPeriod: 10s, minSyncPeriod: 2s}
logging: {verbosity: 3}
enableProfiling: true
`

	for _, c := range []struct {
		name, file string
		env        map[string]string
		args       []string
		want       string
		got        func(*settings) any
	}{
		{"seeds' flags", "", map[string]string{"KUBE_NETWORK": "l2bridge"},
			strings.Fields(
				"--v=3 --proxy-mode=kernelspace --hostname-override=Node1 --master=http://192.0.2.1:8080 --bind-address=192.0.2.2"),
			"node1 kernelspace http://192.0.2.1:8080 l2bridge 3", func(s *settings) any {
				return s.Hostname + " " + s.Mode + " " + s.Master + " " + s.Config.Winkernel.NetworkName + " " +
					fmt.Sprint(s.Config.Logging.Verbosity)
			}},
		{"seeds' userspace", "", map[string]string{"INTERFACE_TO_ADD_SERVICE_IP": "vEthernet (HNS Internal NIC)"},
			[]string{"--proxy-mode=userspace"}, "vEthernet (HNS Internal NIC)",
			func(s *settings) any { return s.ServiceInterface }},
		{"host's name", "", nil, nil, "win-host", func(s *settings) any { return s.Hostname }},
		{"file's name", file, nil, []string{"--config=x"}, "file01", func(s *settings) any { return s.Hostname }},
		{"flag's name", file, nil, []string{"--config=x", "--hostname-override=Flag01"}, "flag01",
			func(s *settings) any { return s.Hostname }},
		{"default addresses", "", nil, nil, "0.0.0.0:10256 127.0.0.1:10249", addresses},
		{"IPv6 addresses", file, nil, []string{"--config=x"}, "[::]:10256 [::1]:10249", addresses},
		{"address without port", "", nil, []string{"--healthz-bind-address=192.0.2.1", "--metrics-bind-address=::1"},
			"192.0.2.1:10256 [::1]:10249", addresses},
		{"deprecated ports", "", nil, []string{"--healthz-port=1234", "--metrics-port=0"}, "0.0.0.0:1234 ", addresses},
		{"no metrics", "", nil, []string{"--metrics-bind-address="}, "0.0.0.0:10256 ", addresses},
		{"DSR by default", "", nil, nil, "true", func(s *settings) any { return s.Config.Winkernel.EnableDSR }},
		{"DSR as upstream with a file", strings.Replace(file, "enableDSR: true, ", "", 1), nil, []string{"--config=x"},
			"false",
			func(s *settings) any { return s.Config.Winkernel.EnableDSR }},
		{"DSR by flag", strings.Replace(file, "enableDSR: true, ", "", 1), nil, []string{"--config=x", "--enable-dsr"},
			"true",
			func(s *settings) any { return s.Config.Winkernel.EnableDSR }},
		{"client", file, nil, []string{"--config=x", "--kube-api-burst=50"}, "7 50 C:\\k\\config",
			func(s *settings) any {
				return strings.Join([]string{fmt.Sprint(s.Config.ClientConnection.QPS),
					fmt.Sprint(s.Config.ClientConnection.Burst), s.Kubeconfig}, " ")
			}},
		{"overlay", file, nil, []string{"--config=x"}, "10.244.2.200 flannel.4096", func(s *settings) any {
			return s.SourceVIP.String() + " " + s.Config.Winkernel.NetworkName
		}},
		{"ranges", file, nil, []string{"--config=x"}, "[10.0.0.0/8 fd00::/8] [10.244.0.0/16 fd01::/56] false",
			func(s *settings) any {
				return fmt.Sprint(s.NodePortRanges) + " " + fmt.Sprint(s.ClusterRanges) + " " +
					fmt.Sprint(s.NodePortsPrimary)
			}},
		{"primary", "", nil, []string{"--nodeport-addresses=primary"}, "true",
			func(s *settings) any { return s.NodePortsPrimary }},
		{"periods", file, nil, []string{"--config=x"}, "2s 10s", periods},
		{"periods by flag", file, nil,
			[]string{"--config=x", "--iptables-sync-period=1h", "--iptables-min-sync-period=0s"}, "0s 30s", periods},
		{"periods left to the mode", "", nil, nil, "0s 0s", periods},
		{"verbosity by flag", file, nil, []string{"--config=x", "-v=6", "--vmodule=a=1,b*=2"}, "6 [{a 1} {b* 2}]",
			func(s *settings) any {
				return fmt.Sprint(s.Config.Logging.Verbosity) + " " +
					fmt.Sprint([]any{s.Config.Logging.VModule[0], s.Config.Logging.VModule[1]})
			}},
		{"unknown fields are warnings", file + "futureField: 1\n", nil, []string{"--config=x"}, "true",
			func(s *settings) any {
				return len(s.warnings) == 1 && strings.Contains(s.warnings[0], "futureField")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := parse(t, c.file, c.env, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(c.got(s)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func addresses(s *settings) any { return s.Healthz + " " + s.Metrics }
func periods(s *settings) any   { return s.Settle.String() + " " + s.Period.String() }

// Rows 1.75, 1.78.
func TestMistakes(t *testing.T) {
	head := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

	for _, c := range []struct {
		name, file string
		args       []string
		want       []string // parts of the error
	}{
		{"unknown flag", "", []string{"--proxy-mod=x"}, []string{"--proxy-mod", "did you mean --proxy-mode?"}},
		{"nonsense", "", []string{"--colour-of-the-sky=x"}, []string{"unknown flag: --colour-of-the-sky"}},
		{"gone", "", []string{"--udp-timeout=250ms"}, []string{"--udp-timeout does not exist any more"}},
		{"gone, with underscores", "", []string{"--proxy_port_range=1-2"},
			[]string{"--proxy-port-range", "own addresses"}},
		{"gone, by prefix", "", []string{"--userspace-fast=1"}, []string{"--proxy-mode=userspace"}},
		{"resource container", "", []string{"--resource-container=/x"}, []string{"job object"}},
		{"cleanup-ipvs", "", []string{"--cleanup-ipvs"}, []string{"use --cleanup"}},
		{"log flags", "", []string{"--logtostderr"}, []string{"standard error"}},
		{"wrong kind", "", []string{"--enable-dsr=maybe"}, []string{"enable-dsr", "maybe"}},
		{"Linux mode", "", []string{"--proxy-mode=ipvs"}, []string{"ipvs is for Linux nodes"}},
		{"unknown mode", "", []string{"--proxy-mode=magic"},
			[]string{`"magic" is unknown`, "kernelspace and userspace"}},
		{"many at once", "", []string{"--bind-address=x", "--healthz-bind-address=1.2.3.4:99999",
			"--nodeport-addresses=10.0.0.0/33", "--source-vip=y",
			"--cluster-cidr=z", "--logging-format=xml", "--show-hidden-metrics-for-version=one",
			"--metrics-bind-address=host:1"},
			[]string{`bind address "x"`, "99999", "10.0.0.0/33", `source VIP "y"`, `cluster CIDR "z"`, "xml", `"one"`,
				`"host"`}},
		{"gates", "", []string{"--feature-gates=A"}, []string{`"A" is not name=true`}},
		{"vmodule", "", []string{"--vmodule=a"}, []string{`"a" is not pattern=level`}},
		{"verbosity", "", []string{"-v=-1"}, []string{"--v"}},
		{"blank name", "", []string{"--hostname-override=  "}, []string{"blank"}},
		{"no file", "", []string{"--config=nowhere"}, []string{"reading --config"}},
		{"no YAML", "a: [", []string{"--config=x"}, []string{"reading --config x"}},
		{"another kind", "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n",
			[]string{"--config=x"}, []string{"KubeletConfiguration", "wanted is"}},
		{"wrong type in the file", head + "hostnameOverride: [1]\n", []string{"--config=x"},
			[]string{"hostnameOverride"}},
		{"negative period", head + "iptables: {syncPeriod: -1s}\n", []string{"--config=x"}, []string{"negative"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(t, c.file, nil, c.args...)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %q", err, want)
				}
			}
		})
	}
}

// TestRoundTrip: --config reads what --write-config-to wrote, without a warning, and yields the same settings.
func TestRoundTrip(t *testing.T) {
	var args []string
	for name, v := range upstreamFlags(t) {
		if !slices.Contains([]string{"healthz-port", "metrics-port", "master", "version"}, name) {
			args = append(args, "--"+name+"="+v)
		}
	}

	first, err := parse(t, "", nil, args...)
	if err != nil {
		t.Fatal(err)
	}

	first.writeTo = filepath.Join(t.TempDir(), "config.yaml")
	if err := writeConfig(first); err != nil {
		t.Fatal(err)
	}

	data, err := os.ReadFile(first.writeTo)
	if err != nil {
		t.Fatal(err)
	}

	second, err := parse(t, string(data), nil, "--config=x")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Config, second.Config); diff != "" {
		t.Errorf("configuration (-first +second):\n%s", diff)
	}

	if first.Period != second.Period || first.Settle != second.Settle || first.Healthz != second.Healthz {
		t.Errorf("settings differ: %v %v", periods(first), periods(second))
	}
	if len(second.warnings) != 1 { // the gates
		t.Errorf("warnings %q", second.warnings)
	}

	first.writeTo = filepath.Join(first.writeTo, "below a file")
	if err := writeConfig(first); err == nil {
		t.Error("writing below a file went well")
	}
}

func TestRunnable(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no HNS network is named"},
		{[]string{"--network-name=x"}, "no API server is named"},
		{[]string{"--proxy-mode=userspace", "--master=http://192.0.2.1"}, "no interface is named"},
	} {
		s, err := parse(t, "", nil, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.runnable(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// TestCommand runs the command lines that end by themselves.
func TestCommand(t *testing.T) {
	run := func(args ...string) (string, error) {
		c := Command()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(io.Discard)
		c.SetArgs(args)
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}

	if out, err := run("--version"); err != nil || !strings.HasPrefix(out, "Kubernetes v1.36") {
		t.Errorf("--version: %q, %v", out, err)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if _, err := run("--write-config-to", file, "--hostname-override", "A"); err != nil {
		t.Error(err)
	}

	if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), "hostnameOverride: a\n") {
		t.Errorf("%v, %s", err, data)
	}
	if _, err := run("--udp-timeout=1s"); err == nil || !strings.Contains(err.Error(), "does not exist any more") {
		t.Errorf("a flag that is gone: %v", err)
	}
}

func TestJSONLog(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(jsonLog(&out, 2))
	logger.Log(t.Context(), slog.Level(-2), "seen", "node", "win01")
	logger.Log(t.Context(), slog.Level(-3), "too deep")
	logger.Error("failed", "err", errors.New("broken"))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"v":2,"msg":"seen","node":"win01"`) ||
		!strings.HasPrefix(lines[0], `{"ts":1`) ||
		!strings.Contains(lines[1], `"msg":"failed","err":"broken"`) || strings.Contains(lines[1], "level") {
		t.Errorf("log:\n%s", out.String())
	}
}
