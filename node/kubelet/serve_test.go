package kubelet

import (
	"fmt"
	v1beta1 "k8s.io/kubelet/config/v1beta1"
	"os"
	"path/filepath"
	"testing"

	"porthole.dev/porthole/internal/platform"
)

func TestLogsDir(t *testing.T) {
	for _, c := range []struct {
		pods string
		on   bool
		want string
	}{
		{"/var/log/pods", true, "/var/log"},
		{"/nodes/one/log/pods", true, "/nodes/one/log"},
		{"/pods", true, "/var/log"}, // not the root
		{"/var/log/pods", false, ""},
	} {
		if got := logsDir(&v1beta1.KubeletConfiguration{EnableSystemLogHandler: &c.on},
			filepath.FromSlash(c.pods)); got != filepath.FromSlash(c.want) && got != c.want {
			t.Errorf("%s: %s, want %s", c.pods, got, c.want)
		}
	}
}

func TestHostDNS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.53\nsearch example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{file: "{[192.0.2.53] [example.com] []}", "": "{[::1] [.] []}"} {
		got, err := newHostResolver(source, func() []string { return []string{"2001:db8::1"} }).hostDNS()
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", source, got, err, want)
		}
	}
	if _, err := newHostResolver(filepath.Join(t.TempDir(), "absent"), nil).hostDNS(); err == nil {
		t.Error("a file that is not there is no error")
	}
	if _, err := newHostResolver(systemDNS, nil).hostDNS(); (err == nil) != platform.IsWindows {
		t.Errorf("the system's own: %v", err)
	}
}
