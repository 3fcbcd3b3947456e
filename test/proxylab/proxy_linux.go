package proxylab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
)

// Ports of a proxy's health and metrics servers.
const (
	HealthPort  = 10256
	MetricsPort = 10249
)

// ProxyProgram is the environment variable that names another kube-proxy.exe than Bin's to be ours.
const ProxyProgram = "PORTHOLE_KUBE_PROXY"

// RunOurs starts our kube-proxy.exe on the host. flags follow, and so win over, those that every proxy needs.
func (h *Host) RunOurs(flags ...string) (*Process, error) {
	program := os.Getenv(ProxyProgram)
	if program == "" {
		program = filepath.Join(h.lab.o.Bin, "windows", "kube-proxy.exe")
	}
	return h.runProxy("ours", program, flags)
}

// Upstream is upstream's program, relative to the folder of the built programs; `make upstream-proxy` builds it.
const Upstream = "bundle/windows/kube-proxy.exe"

// RunUpstream starts upstream's kube-proxy.exe on the host, like RunOurs.
func (h *Host) RunUpstream(flags ...string) (*Process, error) {
	return h.runProxy("upstream", filepath.Join(h.lab.o.Bin, Upstream), flags)
}

func (h *Host) runProxy(kind, program string, flags []string) (*Process, error) {
	args := append([]string{`--kubeconfig=C:\k\kubeconfig`, "--proxy-mode=kernelspace", "--hostname-override=" + h.Name,
		"--network-name=" + NetworkName, "--cluster-cidr=" + PodRange.String(),
		fmt.Sprintf("--healthz-bind-address=0.0.0.0:%d", HealthPort),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", MetricsPort)}, flags...)
	return h.Run(kind, program, args...)
}

// Run starts a Windows program of the host; program is a C:\ path or a Linux path. Its output goes to a log of its own.
func (h *Host) Run(name, program string, args ...string) (*Process, error) {
	if filepath.IsAbs(program) {
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("a program is not built: %w", err)
		}
	}
	h.mu.Lock()
	h.next++
	file := filepath.Join(h.Dir, fmt.Sprintf("%s-%d.log", name, h.next))
	h.mu.Unlock()

	log, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := h.tools.Command(context.Background(), h.prefix, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	// Wine's own errors: a program that it cannot start says nothing itself
	cmd.Env = append(cmd.Env, "WINEDEBUG=fixme-all")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	if err := platform.StartInNetns(h.Netns, cmd); err != nil {
		return nil, fmt.Errorf("starting %s on %s: %w", name, h.Name, err)
	}
	p := newProcess(name, file, cmd)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.procs = append(h.procs, p)

	return p, nil
}

// Get asks a server on the host, for example the proxy's health at HealthPort, and gives status and body.
func (h *Host) Get(ctx context.Context, port uint16, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: testkit.DialIn(h.Netns)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}
