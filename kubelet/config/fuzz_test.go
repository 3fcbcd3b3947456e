package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// checkLoaded loads for both systems. It fails unless Load returns an error, or a configuration with all its defaults
// in which the kubelet can use every number.
func checkLoaded(t *testing.T, s Source) {
	t.Helper()
	for _, windows := range []bool{false, true} {
		s.Windows = windows
		c, _, err := Load(s)
		if err != nil {
			continue
		}
		if c.Port == 0 || c.HealthzPort == nil || c.CrashLoopBackOff.MaxContainerRestartPeriod == nil ||
			c.ResolverConfig == nil {
			t.Fatalf("defaults are missing: %+v", c)
		}

		for _, d := range []time.Duration{c.FileCheckFrequency.Duration, c.HTTPCheckFrequency.Duration,
			c.NodeStatusUpdateFrequency.Duration, c.NodeStatusReportFrequency.Duration,
			c.RuntimeRequestTimeout.Duration, c.ContainerLogMonitorInterval.Duration,
			time.Duration(c.NodeLeaseDurationSeconds), time.Duration(*c.ContainerLogMaxWorkers)} {
			if d <= 0 { // tickers and time limits
				t.Fatalf("a period of %v: %+v", d, c)
			}
		}
		for signal := range c.EvictionSoft {
			if _, err := time.ParseDuration(c.EvictionSoftGracePeriod[signal]); err != nil {
				t.Fatal(err)
			}
		}

		for _, m := range []map[string]string{c.SystemReserved, c.KubeReserved, {"": c.ContainerLogMaxSize}} {
			for _, text := range m {
				if q, err := resource.ParseQuantity(text); err != nil || q.Sign() < 0 {
					t.Fatalf("%q: %v", text, err)
				}
			}
		}
	}
}

// FuzzLoad loads files and drop-ins with any text.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(kind+"maxPods: 7\n"), []byte(kind+"maxPods: null\n"))
	f.Add([]byte(kind+"authentication: null\nevictionHard: {a: null}\nregisterWithTaints: [null]\n"), []byte{})
	f.Add([]byte(kind+"crashLoopBackOff: {maxContainerRestartPeriod: 9999999999h}\n"),
		[]byte(kind+"crashLoopBackOff: null"))
	f.Add([]byte(kind+
		"fileCheckFrequency: -1s\nevictionSoft: {memory.available: 1%}\nevictionSoftGracePeriod: {memory.available: x}"), []byte("a"))
	f.Add([]byte(kind+"httpCheckFrequency: -1ns"), []byte(kind+"nodeStatusUpdateFrequency: -1s"))
	f.Fuzz(func(t *testing.T, data, dropIn []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		checkLoaded(t, Source{File: path})
		if len(dropIn) > 0 {
			if err := os.WriteFile(filepath.Join(dir, "1.conf"), dropIn, 0o600); err != nil {
				t.Fatal(err)
			}
			checkLoaded(t, Source{File: path, Dir: dir})
		}
	})
}

// FuzzFlags gives any text to the flag number n. A text that parsing accepts must not be refused when it is applied.
func FuzzFlags(f *testing.F) {
	list := func() (*pflag.FlagSet, *Flags, []string) {
		fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
		flags := AddFlags(fs)
		var names []string
		fs.VisitAll(func(one *pflag.Flag) { names = append(names, one.Name) })
		return fs, flags, names
	}
	_, _, names := list()

	for name, text := range map[string]string{"eviction-hard": "memory.available<1%,a<",
		"register-with-taints": "a=b:NoSchedule,:", "manifest-url-header": "a:b,a:c:d",
		"feature-gates": "A=true,B", "system-reserved": "cpu=-1", "file-check-frequency": "-1s", "v": "0x7",
		"port": "-0"} {
		f.Add(uint(max(0, slices.Index(names, name))), text)
	}

	f.Fuzz(func(t *testing.T, n uint, text string) {
		fs, flags, names := list()
		name := names[n%uint(len(names))]
		if fs.Set(name, text) != nil {
			return
		}
		checkLoaded(t, Source{Flags: flags})
		if _, _, err := Load(Source{Flags: flags}); err != nil &&
			strings.Contains(err.Error(), fmt.Sprintf("--%s: ", name)) {
			t.Fatalf("--%s=%q was taken, and then: %v", name, text, err)
		}
	})
}
