package services

import (
	"slices"
	"strings"
	"testing"
)

func wanted(t *testing.T, name string, o Options) Spec {
	t.Helper()
	p, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return p.Wanted(o)
}

// Row 1.52.
func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
		want string
	}{
		{"routes", Options{Program: `C:\k\porthole.exe`, LogDir: `C:\logs\`, Args: []string{"--v=2"}},
			`C:\k\porthole.exe routes --windows-service --log-file=C:\logs\routes.log --v=2`},
		{"porthole-routes", Options{Program: `C:\k\porthole.exe`, LogDir: `C:\logs`,
			Args: []string{"--log-file", `D:\x`}},
			`C:\k\porthole.exe routes --windows-service --log-file D:\x`},
		{"Kubelet", Options{Program: `C:\k\Kubelet.exe`, LogDir: `C:\logs`},
			`C:\k\Kubelet.exe --windows-service --log-file=C:\logs\kubelet.log`},
	} {
		if got := strings.Join(wanted(t, tc.name, tc.o).Command, " "); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
	if _, err := Find("dockerd"); err == nil || !strings.Contains(err.Error(), "routes, kube-proxy, kubelet") {
		t.Errorf("an unknown program: %v", err)
	}
}

func TestDiff(t *testing.T) {
	s := wanted(t, "kubelet", Options{Program: `C:\k\kubelet.exe`, LogDir: `C:\logs`})
	if got := Diff(s, nil); len(got) != 1 ||
		!strings.HasPrefix(got[0].String(), `create service kubelet: C:\k\kubelet.exe --windows-service`) {
		t.Errorf("none there: %v", got)
	}
	same := s
	same.Restart = slices.Clone(s.Restart)
	if got := Diff(s, &same); len(got) != 0 {
		t.Errorf("nothing differs: %v", got)
	}

	same.Restart, same.OnError, same.Dependencies, same.Start = nil, false, []string{"hns"}, "delayed"
	same.Environment = []string{"A=1"}
	var got []string
	for _, c := range Diff(s, &same) {
		got = append(got, c.String())
	}
	want := []string{"change service kubelet: dependencies from hns to none",
		"change service kubelet: start from delayed to automatic",
		"change service kubelet: restart after failures from never to 1s, 5s, 15s",
		"change service kubelet: restart after errors from false to true",
		"change service kubelet: environment from A=1 to none"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestVariables(t *testing.T) {
	env, err := ParseVariables([]string{"HTTPS_PROXY=http://10.0.0.1:3128?a=b", "GOMEMLIMIT=1GiB", "EMPTY="})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"EMPTY=", "GOMEMLIMIT=1GiB", "HTTPS_PROXY=http://10.0.0.1:3128?a=b"}
	if got := wanted(t, "kubelet",
		Options{Program: `C:\k\kubelet.exe`, LogDir: `C:\logs`, Environment: env}).Environment; !slices.Equal(got,
		want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{"GOMEMLIMIT", "=x", `Path=C:\k`, "A=1\nB=2"} {
		if _, err := ParseVariables([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestCheckOwner(t *testing.T) {
	for program, ours := range map[string]bool{`C:\k\kubelet.exe`: true, `C:\Program Files\Porthole\Porthole.exe`: true,
		`C:\k\nssm.exe`: false, ``: false} {
		if err := CheckOwner(Spec{Name: "kubelet", Command: []string{program}}); (err == nil) != ours {
			t.Errorf("%s: %v", program, err)
		}
	}
}

func TestLastError(t *testing.T) {
	const log = "I1123 04:21:29.6 1 a.go:1] \"Well\"\r\nE1123 04:21:29.6 1 a.go:1] \"Bad\" err=\"x\"\r\nI1123 04:21:30.6 1 a.go:1] \"Well again\"\r\n\r\n"
	if got := LastError(log); got != `E1123 04:21:29.6 1 a.go:1] "Bad" err="x"` {
		t.Errorf("%q", got)
	}
	if got := LastError("panic: nil map\n\ngoroutine 1 [running]:\nmain.main()\n"); got != "panic: nil map" {
		t.Errorf("%q", got)
	}
	if got := LastError("Everything is fine\n"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestShutdownOrder(t *testing.T) {
	for _, tc := range []struct{ order, dependencies, want string }{
		{"x b y c", "a b c", "x kubelet b y c a"},
		{"UsoSvc Kubelet containerd", "ContainerD", "UsoSvc kubelet containerd"},
		{"UsoSvc gpsvc", "containerd", "UsoSvc gpsvc kubelet containerd"},
		{"", "containerd", "kubelet containerd"},
		{"UsoSvc", "", "UsoSvc"},
	} {
		got := strings.Join(shutdownOrder(strings.Fields(tc.order), "kubelet", strings.Fields(tc.dependencies)), " ")
		if got != tc.want {
			t.Errorf("%q with %q: %q, want %q", tc.order, tc.dependencies, got, tc.want)
		}
	}
}
