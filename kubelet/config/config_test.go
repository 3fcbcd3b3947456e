package config

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
)

const kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flags parses a command line.
func flags(t *testing.T, args ...string) *Flags {
	t.Helper()
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	f := AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return f
}

func load(t *testing.T, s Source) *v1beta1.KubeletConfiguration {
	t.Helper()
	cfg, _, err := Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDefaults(t *testing.T) {
	c := load(t, Source{})
	for what, ok := range map[string]bool{
		"ports": c.Port == 10250 && c.ReadOnlyPort == 0 && *c.HealthzPort == 10248,
		"status": c.NodeStatusUpdateFrequency.Duration == 10*time.Second &&
			c.NodeStatusReportFrequency.Duration == 5*time.Minute,
		"files": c.FileCheckFrequency.Duration == 20*time.Second &&
			c.HTTPCheckFrequency.Duration == 20*time.Second,
		"access": !*c.Authentication.Anonymous.Enabled && *c.Authentication.Webhook.Enabled &&
			c.Authorization.Mode == "Webhook",
		"images": *c.ImageGCHighThresholdPercent == 85 && *c.ImageGCLowThresholdPercent == 80 &&
			c.ImageMinimumGCAge.Duration == 2*time.Minute,
		"logs":        c.ContainerLogMaxSize == "10Mi" && *c.ContainerLogMaxFiles == 5,
		"eviction":    len(c.EvictionHard) == 5 && c.EvictionHard["memory.available"] == "100Mi",
		"back-off":    c.CrashLoopBackOff.MaxContainerRestartPeriod.Duration == 300*time.Second,
		"enforcement": slices.Equal(c.EnforceNodeAllocatable, []string{"pods"}),
	} {
		if !ok {
			t.Errorf("%s: %+v", what, c)
		}
	}

	w := load(t, Source{Windows: true})
	if w.EvictionHard["memory.available"] != "500Mi" || *w.ResolverConfig != "Host" ||
		!strings.HasPrefix(w.ContainerRuntimeEndpoint, "npipe:") || w.CgroupDriver != "" {
		t.Errorf("Windows: %+v", w)
	}
	linux, windows := reflect.ValueOf(*c), reflect.ValueOf(*w)
	for i := range linux.NumField() {
		name, field := linux.Type().Field(i).Name, windows.Field(i)
		// nobody reads those
		if linux.Field(i).Kind() == reflect.Pointer && !linux.Field(i).IsNil() && field.IsNil() &&
			!strings.HasPrefix(name, "IPTables") {
			t.Errorf("%s has a default on Linux and none on Windows: who reads it there follows a nil pointer", name)
		}
	}

	// A status period that is set is also the period of unchanged reports.
	path := write(t, t.TempDir(), "c.yaml", kind+"nodeStatusUpdateFrequency: 3s\n")
	if c := load(t, Source{File: path}); c.NodeStatusReportFrequency.Duration != 3*time.Second {
		t.Errorf("report frequency %v", c.NodeStatusReportFrequency)
	}
	// A configuration that was written out can be read again.
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Replace(string(text), "{",
		`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration",`, 1)
	if again := load(t, Source{File: write(t, t.TempDir(), "c.json", doc)}); !reflect.DeepEqual(again.EvictionHard,
		c.EvictionHard) || again.Port != c.Port {
		t.Errorf("read again: %+v", again)
	}
}

// TestUnknownFields: unknown fields are named in warnings, and the others are applied.
func TestUnknownFields(t *testing.T) {
	path := write(t, t.TempDir(), "c.yaml",
		kind+"maxPods: 7\nmaxPodz: 8\nauthentication: {x509: {clientCA: x}}\nclusterDomain: a\n")
	cfg, warnings, err := Load(Source{File: path})
	text := strings.Join(warnings, "\n")
	if err != nil || cfg.MaxPods != 7 || cfg.ClusterDomain != "a" || len(warnings) != 2 ||
		!strings.Contains(text, "maxPodz") || !strings.Contains(text, "authentication.x509.clientCA") {
		t.Errorf("maxPods %d, warnings %v, error %v", cfg.MaxPods, warnings, err)
	}
	twice := write(t, t.TempDir(), "c.yaml",
		`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":1,"maxPods":2}`)
	if cfg, warnings, err := Load(Source{File: twice}); err != nil || cfg.MaxPods != 2 ||
		(len(warnings) != 1 || !strings.Contains(warnings[0], "maxPods")) {
		t.Errorf("a field that is there twice: warnings %v, error %v", warnings, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"not YAML", "a: [", "yaml"},
		{"another kind", "apiVersion: v1\nkind: Pod\n", `it is a "Pod" of "v1", not a KubeletConfiguration`},
		{"nothing", "", "not a KubeletConfiguration"},
		{"wrong type", kind + "maxPods: many\n", "maxPods"},
		{"max pods", kind + "maxPods: -1\n",
			"invalid configuration: maxPods (--max-pods) -1 must not be a negative number"},
		{"log query without logs", kind + "enableSystemLogQuery: true\nenableSystemLogHandler: false\n",
			"invalid configuration: enableSystemLogHandler is required for enableSystemLogQuery"},
		{"sysctl of the whole machine", kind + "allowedUnsafeSysctls: [net.core.somaxconn, \"vm.*\"]\n",
			`invalid configuration: the sysctls "vm.*" are not known to be namespaced`},
		{"log interval", kind + "containerLogMonitorInterval: 1s\n",
			"invalid configuration: containerLogMonitorInterval 1s must be greater than or equal to 3s"},
		{"port", kind + "port: 70000\n",
			"invalid configuration: port (--port) 70000 must be between 1 and 65535, inclusive"},
		{"health port", kind + "healthzPort: -1\n",
			"healthzPort (--healthz-port) -1 must be between 1 and 65535, inclusive"},
		{"image thresholds", kind + "imageGCHighThresholdPercent: 50\n",
			"imageGCLowThresholdPercent (--image-gc-low-threshold) 80 must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 50"},
		{"back-off", kind + "crashLoopBackOff: {maxContainerRestartPeriod: 1h}\n",
			"CrashLoopBackOff.MaxContainerRestartPeriod (got: 3600 seconds) must be set between 1s and 300s"},
		{"taint", kind + "registerWithTaints: [{key: a, effect: Never}]\n", "invalid taint"},
		{"eviction", kind + "evictionHard: {memory.available: lots}\n",
			`memory.available of "lots" is neither a quantity nor a percentage`},
		{"reserved", kind + "systemReserved: {cpu: some}\n", `cpu of "some" is not a quantity`},
		{"parallel pulls", kind + "serializeImagePulls: true\nmaxParallelImagePulls: 2\n",
			"maxParallelImagePulls cannot be larger than 1"},
		{"hairpin", kind + "hairpinMode: yes-please\n", "hairpinMode (--hairpin-mode)"},
		{"DNS", kind + "clusterDNS: [kube-dns]\n", `clusterDNS (--cluster-dns) "kube-dns" is not an IP address`},
		{"shutdown", kind + "shutdownGracePeriodCriticalPods: 5s\n",
			"shutdownGracePeriodCriticalPods 5s must be <= shutdownGracePeriod 0s"},
		{"half a certificate", kind + "tlsCertFile: /x\n", "tlsCertFile and tlsPrivateKeyFile must be set together"},
		{"reserved processors", kind + "reservedSystemCPUs: some\n",
			"unable to parse reservedSystemCPUs (--reserved-cpus) some, error: "},
		{"reserved processors and a cgroup", kind + "reservedSystemCPUs: 0-3\nkubeReservedCgroup: /x\n",
			"can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup"},
		{"reserved memory of a kind", kind + "reservedMemory: [{numaNode: 1, limits: {cpu: 1}}]\n",
			`the limit type "cpu" for NUMA node 1 is not supported, only [memory hugepages-<HugePageSize>] is accepted`},
		{"reserved memory of nothing", kind + "reservedMemory: [{numaNode: 1, limits: {memory: 0}}]\n",
			`reserved memory may not be zero for NUMA node 1 and resource "memory"`},
		{"reserved memory twice",
			kind + "reservedMemory: [{numaNode: 1, limits: {memory: 1}}, {numaNode: 1, limits: {memory: 1}}]\n",
			`the reserved memory has a duplicate value for NUMA node 1 and resource "memory"`},
		{"cgroup driver", kind + "cgroupDriver: docker\n",
			`cgroupDriver (--cgroup-driver) "docker" is neither cgroupfs nor systemd`},
		{"two", kind + "maxPods: -1\nport: -2\n", "port (--port) -2"},
	} {
		_, _, err := Load(Source{File: write(t, t.TempDir(), "c.yaml", c.text)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}

	if _, _, err := Load(Source{File: "/no/such/file"}); err == nil {
		t.Error("a file that does not exist was read")
	}
	path := write(t, t.TempDir(), "c.yaml",
		kind+"singleProcessOOMKill: true\ncgroupRoot: /x\ncpuManagerPolicy: static\n")
	_, warnings, err := Load(Source{File: path, Windows: true})
	if err == nil || !strings.Contains(err.Error(), "singleProcessOOMKill is not supported on Windows") ||
		!slices.Contains(warnings, "CgroupRoot (--cgroup-root) is not supported on Windows and is ignored") ||
		!slices.Contains(warnings, "cpuManagerPolicy is not supported on Windows and is ignored") ||
		slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "memoryManagerPolicy") }) {
		t.Errorf("cgroups on Windows: warnings %v, error %v", warnings, err)
	}
}

// TestDropIns: later names win, objects are merged, lists replaced, other files not read.
func TestDropIns(t *testing.T) {
	dir := t.TempDir()
	base := write(t, t.TempDir(), "c.yaml",
		kind+
			"maxPods: 1\nclusterDNS: [10.0.0.1, 10.0.0.2]\nevictionHard: {memory.available: 1Mi, nodefs.available: 1%}\n")
	write(t, dir, "10-a.conf", kind+"maxPods: 2\nevictionHard: {memory.available: 2Mi}\n")
	write(t, dir, "20-b.conf", kind+"maxPods: 3\nclusterDNS: [10.0.0.9]\n")
	write(t, dir, "30-c.yaml", kind+"maxPods: 4\n")
	c := load(t, Source{File: base, Dir: dir})
	if c.MaxPods != 3 || !slices.Equal(c.ClusterDNS, []string{"10.0.0.9"}) ||
		c.EvictionHard["memory.available"] != "2Mi" || c.EvictionHard["nodefs.available"] != "1%" {
		t.Errorf("configuration: %+v", c)
	}
	if c := load(t, Source{File: base, Dir: dir, Flags: flags(t, "--max-pods=5")}); c.MaxPods != 5 {
		t.Errorf("a flag does not win: %d", c.MaxPods)
	}
	write(t, dir, "40-d.conf", "kind: Pod")
	if _, _, err := Load(Source{File: base, Dir: dir}); err == nil || !strings.Contains(err.Error(), "40-d.conf") {
		t.Errorf("a drop-in of another kind: %v", err)
	}
}

// TestPathsAreOfTheFile: relative paths of the file are relative to its folder, whatever the working folder is: that
// of a Windows service is C:\Windows\System32. Those of flags are relative to the working folder.
func TestPathsAreOfTheFile(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, dir, "c.yaml", kind+`staticPodPath: manifests
authentication: {x509: {clientCAFile: pki/ca.crt}}
tlsCertFile: ../kubelet.crt
tlsPrivateKeyFile: /etc/kubelet.key
resolvConf: resolv.conf
podLogsDir: logs
`)
	t.Chdir(elsewhere)
	file, err := filepath.Rel(elsewhere, filepath.Join(dir, "c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, Source{File: file})
	got := []string{c.StaticPodPath, c.Authentication.X509.ClientCAFile, c.TLSCertFile, *c.ResolverConfig, c.PodLogsDir}
	want := []string{filepath.Join(dir, "manifests"), filepath.Join(dir, "pki", "ca.crt"),
		filepath.Join(filepath.Dir(dir), "kubelet.crt"),
		filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "logs")}
	if !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}

	if c.TLSPrivateKeyFile != "/etc/kubelet.key" || c.VolumePluginDir == dir {
		t.Errorf("an absolute path became %s, one that is not there %s", c.TLSPrivateKeyFile, c.VolumePluginDir)
	}
	if c := load(t, Source{File: file, Flags: flags(t, "--pod-manifest-path=static")}); c.StaticPodPath != "static" {
		t.Errorf("the path of a flag became %s", c.StaticPodPath)
	}
	write(t, dir, "w.yaml", kind+"resolvConf: Host\n")
	if c := load(t, Source{File: filepath.Join(dir, "w.yaml"), Windows: true}); *c.ResolverConfig != "Host" {
		t.Errorf("the node's own settings became the file %s", *c.ResolverConfig)
	}
}

func TestFlags(t *testing.T) {
	path := write(t, t.TempDir(), "c.yaml",
		kind+
			"clusterDNS: [10.0.0.1]\nevictionHard: {memory.available: 1Gi}\nrotateCertificates: true\nregisterWithTaints: [{key: old, effect: NoSchedule}]\n")
	c := load(t, Source{File: path, Flags: flags(t,
		"--cluster-dns=10.0.0.2,10.0.0.3", "--cluster-dns", "10.0.0.4",
		"--eviction-hard=memory.available<5%,nodefs.available<10%",
		"--rotate-certificates=false", "--rotate-server-certificates", "--system-reserved", "cpu=100m,memory=1Gi",
		"--register-with-taints=a=b:NoSchedule,c=:NoExecute", "--feature-gates=NodeSwap=true,EventedPLEG=false",
		"--node-status-update-frequency=4s",
		"--healthz-port=0", "--pod-max-pids=100", "--manifest-url-header=a:b,a:c", "--resolv-conf=",
		"--cgroup-driver=systemd")})

	for what, ok := range map[string]bool{
		"a list that is given twice": slices.Equal(c.ClusterDNS, []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"}),
		"pairs": reflect.DeepEqual(c.EvictionHard,
			map[string]string{"memory.available": "5%", "nodefs.available": "10%"}),
		"switched off and on": !c.RotateCertificates && c.ServerTLSBootstrap,
		"quantities":          c.SystemReserved["cpu"] == "100m" && c.SystemReserved["memory"] == "1Gi",
		"taints": reflect.DeepEqual(c.RegisterWithTaints,
			[]v1.Taint{{Key: "a", Value: "b", Effect: v1.TaintEffectNoSchedule},
				{Key: "c", Effect: v1.TaintEffectNoExecute}}),
		"gates":   c.FeatureGates["NodeSwap"] && len(c.FeatureGates) == 2,
		"time":    c.NodeStatusUpdateFrequency.Duration == 4*time.Second,
		"zero":    *c.HealthzPort == 0,
		"long":    *c.PodPidsLimit == 100,
		"headers": slices.Equal(c.StaticPodURLHeader["a"], []string{"b", "c"}),
		"empty":   *c.ResolverConfig == "",
		"text":    c.CgroupDriver == "systemd",
	} {
		if !ok {
			t.Errorf("%s: %+v", what, c)
		}
	}
	if c := load(t, Source{Flags: flags(t, "--eviction-hard=")}); len(c.EvictionHard) != 0 {
		t.Errorf("no thresholds were asked for: %v", c.EvictionHard)
	}
}

func TestFlagMistakes(t *testing.T) {
	for _, arg := range []string{"--max-pods=many", "--no-such-flag", "--node-status-update-frequency=5",
		"--register-with-taints=a", "--feature-gates=A",
		"--feature-gates=NodeSwap=maybe", "--system-reserved=cpu", "--cgroups-per-qos=perhaps",
		"--max-pods=99999999999"} {
		fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
		AddFlags(fs)
		if err := fs.Parse([]string{arg}); err == nil {
			t.Errorf("%s was accepted", arg)
		}
	}
}

// TestEvictionDefaults: thresholds in the configuration replace the defaults, or are added to them if the configuration
// says so.
func TestEvictionDefaults(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]string
	}{
		{"replaced", "evictionHard: {memory.available: 1Gi}\n", map[string]string{"memory.available": "1Gi"}},
		{"none", "evictionHard: {}\n", map[string]string{}},
		{"merged", "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n",
			map[string]string{"memory.available": "1Gi",
				"nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%",
				"imagefs.inodesFree": "5%"}},
	} {
		path := write(t, t.TempDir(), "c.yaml", kind+c.text)
		if got := load(t, Source{File: path}).EvictionHard; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestFlagsOverLists: a flag of a list or map replaces what the file says, except for three maps, which it adds to.
func TestFlagsOverLists(t *testing.T) {
	merged := []string{"qos-reserved", "cpu-manager-policy-options", "topology-manager-policy-options"}
	for name, at := range lists {
		f, cfg := flags(t, "--"+name+"=new1,new2"), &cfg{}
		*at(cfg) = []string{"file"}
		if err := f.apply(cfg); err != nil || !slices.Equal(*at(cfg), []string{"new1", "new2"}) {
			t.Errorf("--%s: %v, %v", name, *at(cfg), err)
		}
	}
	for name, m := range maps {
		f, cfg := flags(t, "--"+name+"=new"+m.sign+"1"), &cfg{}
		*m.at(cfg) = map[string]string{"file": "0"}
		want := map[string]string{"new": "1"}
		if slices.Contains(merged, name) {
			want["file"] = "0"
		}
		if err := f.apply(cfg); err != nil || !reflect.DeepEqual(*m.at(cfg), want) {
			t.Errorf("--%s: %v, %v, want %v", name, *m.at(cfg), err, want)
		}
	}
}

// TestEncodings: editors of Windows begin a file with a byte order mark, and some write UTF-16. Such a configuration
// is read as any other, with CR and LF too.
func TestEncodings(t *testing.T) {
	text := strings.ReplaceAll(kind+"maxPods: 37\nclusterDomain: \"ä.example\"\n", "\n", "\r\n")
	wide := utf16.Encode([]rune("\ufeff" + text))
	var little, big []byte
	for _, c := range wide {
		little, big = binary.LittleEndian.AppendUint16(little, c), binary.BigEndian.AppendUint16(big, c)
	}
	for name, data := range map[string]string{"UTF-8": text, "UTF-8 with a mark": "\ufeff" + text,
		"UTF-16": string(little), "UTF-16 of the other order": string(big),
		"JSON with a mark": "\ufeff" +
			`{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": 37, "clusterDomain": "ä.example"}`} {
		dir := t.TempDir()
		got, _, err := Load(Source{File: write(t, dir, "config.yaml", data), Flags: flags(t)})
		if err != nil || got.MaxPods != 37 || got.ClusterDomain != "ä.example" {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}
