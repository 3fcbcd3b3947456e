package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestSysctls(t *testing.T) {
	allowed := []string{"kernel.msg*", "net/ipv4/route/min_pmtu", "net.ipv4.conf.*"}
	for _, c := range []struct {
		kernel string
		spec   v1.PodSpec
		want   string
	}{

		{"6.1.0-18-amd64", v1.PodSpec{}, ""},
		{"6.1.0-18-amd64", withSysctls("kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_fin_timeout"), ""},
		{"6.1.0-18-amd64", withSysctls("kernel/shm_rmid_forced"), ""},
		{"6.1.0-18-amd64", withSysctls("kernel.msgmax", "net.ipv4.route.min_pmtu", "net.ipv4.conf.eth0/100.forwarding"),
			""},
		{"6.1.0-18-amd64", withSysctls("net.ipv4.tcp_syncookies", "kernel.shmmax"),
			`forbidden sysctl: "kernel.shmmax" not allowlisted`},
		{"6.1.0-18-amd64", withSysctls("vm.swappiness"), `forbidden sysctl: "vm.swappiness" not allowlisted`},
		{"4.5.0", withSysctls("net.ipv4.tcp_fin_timeout"),
			`forbidden sysctl: "net.ipv4.tcp_fin_timeout" not allowlisted`},
		{"strange", withSysctls("net.ipv4.tcp_keepalive_time"),
			`forbidden sysctl: "net.ipv4.tcp_keepalive_time" not allowlisted`},
		{"", withSysctls("net.ipv4.tcp_syncookies"), `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowlisted`},
		{"6.1", on(withSysctls("net.ipv4.tcp_syncookies"), true, false),
			`forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		{"6.1", on(withSysctls("net.ipv4.conf.all.forwarding"), true, false),
			`forbidden sysctl: "net.ipv4.conf.all.forwarding" not allowed with host Net enabled`},
		{"6.1", on(withSysctls("kernel.msgmax"), false, true),
			`forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`},
		{"6.1", on(withSysctls("kernel.msgmax"), true, false), ""},
	} {

		got := NewSysctls(c.kernel, allowed).refuse(&v1.Pod{Spec: c.spec})
		if c.want == "" && got != nil ||
			c.want != "" && (got == nil || got.Reason != "SysctlForbidden" || got.Message != c.want) {
			t.Errorf("%s, %+v: %+v, want %q", c.kernel, c.spec.SecurityContext, got, c.want)
		}
	}
}

func withSysctls(names ...string) v1.PodSpec {
	sc := &v1.PodSecurityContext{}
	for _, n := range names {
		sc.Sysctls = append(sc.Sysctls, v1.Sysctl{Name: n, Value: "1"})
	}
	return v1.PodSpec{SecurityContext: sc}
}

func on(s v1.PodSpec, network, ipc bool) v1.PodSpec {
	s.HostNetwork, s.HostIPC = network, ipc
	return s
}
