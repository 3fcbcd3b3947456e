package firewall

import (
	"slices"
	"strings"
	"testing"
)

// The first text is from [MS-GPFAS] 4.1; fields that the emulated host does not know are passed over.
func TestParse(t *testing.T) {
	for text, want := range map[string]Rule{
		`v2.0|Action=Allow|Dir=In|App=%ProgramFiles%\MyApplication\MyApplication.exe|Svc=winrm|Name=My Application|Active=TRUE|`: {Name: "My Application", Program: `%ProgramFiles%\MyApplication\MyApplication.exe`},
		`v2.29|Action=Block|Active=FALSE|Dir=In|Protocol=6|LPort=80|LPort2_10=8000-8080|Name=b|`:                                 {Name: "b", Block: true, Disabled: true, Protocol: 6, Ports: []string{"80", "8000-8080"}},
	} {
		got, in, err := Parse(text)
		if err != nil || !in || got.Name != want.Name || got.Block != want.Block || got.Disabled != want.Disabled ||
			got.Program != want.Program || got.Protocol != want.Protocol || !slices.Equal(got.Ports, want.Ports) {
			t.Errorf("%s\nis %+v, %t, %v", text, got, in, err)
		}
		again, _, err := Parse(got.Text())
		if err != nil || again.Text() != got.Text() {
			t.Errorf("%s is %s after a round", got.Text(), again.Text())
		}
	}

	if _, in, err := Parse(`v2.0|Action=Allow|Dir=Out|Name=out|`); in || err != nil {
		t.Errorf("a rule for what goes out: %t, %v", in, err)
	}
	for _, bad := range []string{"", "Action=Allow", "v2.0|Protocol=TCP|", "v2.0|LPort=80-7|",
		`v2.0|LPort=80 } accept; }|`} {
		if _, _, err := Parse(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestScript(t *testing.T) {
	script := Script([]Rule{{Name: "kubelet", Program: `C:\k\kubelet.exe`},
		{Name: "web", Protocol: 6, Ports: []string{"80", "8000-8080"}},
		{Name: "off", Disabled: true, Protocol: 6, Ports: []string{"81"}}, {Name: "no", Block: true, Protocol: 17}})
	block := strings.Index(script, "meta l4proto udp drop\n")
	allow := strings.Index(script, "tcp dport { 80, 8000-8080 } accept\n")
	if block < 0 || allow < block || !strings.Contains(script, "socket mark 0xf") || strings.Contains(script, "81 }") {
		t.Errorf("blocking rules come first, disabled ones not at all:\n%s", script)
	}
}

func TestMark(t *testing.T) {
	if Mark(`C:\k\kubelet.exe`) != Mark(`c:\K\KUBELET.EXE`) ||
		Mark(`C:\k\kubelet.exe`) == Mark(`C:\k\kube-proxy.exe`) || Mark("")>>28 != 0xf {
		t.Errorf("marks %x, %x, %x", Mark(`C:\k\kubelet.exe`), Mark(`C:\k\kube-proxy.exe`), Mark(""))
	}
}
