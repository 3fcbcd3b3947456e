package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// starters are the functions of the standard library and of golang.org/x/sys/windows that start a program.
var starters = []string{"StartProcess", "CreateProcess", "CreateProcessAsUser", "CreateProcessWithLogon",
	"CreateProcessWithToken", "ShellExecute", "ForkExec", "WinExec"}

// TestTheKubeletStartsNoProgramOnWindows is the check that CVE-2023-3676, CVE-2023-3955, CVE-2023-5528 and
// CVE-2024-9042 leave us: text of a pod or a request cannot reach a shell where no program is ever started.
func TestTheKubeletStartsNoProgramOnWindows(t *testing.T) {
	startNoProgram(t, "the kubelet", 12, "kubelet/...", "cli/kubelet", "cli/firewall", "internal/firewall",
		"node/kubelet", "join/...", "cli/join", "cli/leave", "cli/upgrade", "node/join",
		"internal/services", "internal/atomicfile", "internal/kube/...", "internal/platform/...")
}

// TestTheAgentOfRoutesStartsNoProgramOnWindows: routes and HNS networks are changed by calls, not by `route add` or
// scripts. The package routes/tor is not among them: on a router it runs the router's own terminal.
func TestTheAgentOfRoutesStartsNoProgramOnWindows(t *testing.T) {
	startNoProgram(t, "the agent of routes", 12, "routes/adapters", "routes/bgp", "routes/fib", "routes/hostgw",
		"routes/hostroutes", "routes/keep", "routes/ovn",
		"routes/podnet", "routes/table", "routes/vxlan", "node/routes", "hns/...", "cni/...")
}

// startNoProgram fails the test for each package of those patterns that can start a program on Windows, and if there
// are less than so many.
func startNoProgram(t *testing.T, who string, atLeast int, patterns ...string) {
	t.Helper()
	looked := 0
	for _, l := range list(t, "windows") {
		name := strings.TrimPrefix(l.ImportPath, Module+"/")
		if !matchesAny(name, patterns) {
			continue
		}
		looked++

		if slices.Contains(l.Imports, "os/exec") {
			if name == "kubelet/credential" {
				continue // it starts what the node's configuration names, and gives it text of pods on its input only
			}
			t.Errorf("%s imports os/exec on Windows: %s starts no program there", name, who)
		}
		for _, f := range l.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(l.Dir, f), nil,
				parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range startsProgram(parsed) {
				t.Errorf("%s/%s uses %s: %s starts no program on Windows", name, f, call, who)
			}
		}
	}
	if looked < atLeast {
		t.Errorf("only %d packages looked at", looked)
	}
}

func startsProgram(f *ast.File) []string {
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			if slices.Contains(starters, x.Sel.Name) {
				found = append(found, x.Sel.Name)
			}
		case *ast.BasicLit: // a procedure looked up by name, in either of its two forms
			text := strings.TrimRight(strings.Trim(x.Value, "\"`"), "AW")
			if x.Kind == token.STRING &&
				slices.ContainsFunc(starters, func(s string) bool { return strings.TrimRight(s, "AW") == text }) {
				found = append(found, x.Value)
			}
		}
		return true
	})
	return found
}

// TestStartsProgram shows that the check above sees what it is for.
func TestStartsProgram(t *testing.T) {
	for text, want := range map[string]int{
		`os.StartProcess("x", nil, nil)`: 1, `windows.CreateProcess(nil)`: 1, `syscall.StartProcess("x", nil, nil)`: 1,
		`windows.NewLazySystemDLL("shell32.dll").NewProc("ShellExecuteW")`:   1,
		`windows.NewLazySystemDLL("kernel32.dll").NewProc("CreateProcessA")`: 1,
		`os.Open("CreateFile")`: 0, `fmt.Println("starting a process")`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := startsProgram(f); len(got) != want {
			t.Errorf("%s: found %v, want %d", text, got, want)
		}
	}
}
