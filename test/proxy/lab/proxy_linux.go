package lab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

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
func (h *Host) RunOurs(flags ...string) (*testkit.Process, error) {
	program := os.Getenv(ProxyProgram)
	if program == "" {
		program = filepath.Join(h.lab.o.Bin, "windows", "kube-proxy.exe")
	}
	return h.runProxy("ours", program, flags)
}

// Upstream is upstream's program, relative to the folder of the built programs; `make upstream-proxy` builds it.
const Upstream = "bundle/windows/kube-proxy.exe"

// RunUpstream starts upstream's kube-proxy.exe on the host, like RunOurs.
func (h *Host) RunUpstream(flags ...string) (*testkit.Process, error) {
	return h.runProxy("upstream", filepath.Join(h.lab.o.Bin, Upstream), flags)
}

func (h *Host) runProxy(kind, program string, flags []string) (*testkit.Process, error) {
	args := append([]string{`--kubeconfig=C:\k\kubeconfig`, "--proxy-mode=kernelspace", "--hostname-override=" + h.Name,
		"--network-name=" + NetworkName, "--cluster-cidr=" + PodRange.String(),
		fmt.Sprintf("--healthz-bind-address=0.0.0.0:%d", HealthPort),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", MetricsPort)}, flags...)
	return h.Run(kind, program, args...)
}

// Run starts a Windows program of the host; program is a C:\ path or a Linux path. Its output goes to a log of its own.
func (h *Host) Run(name, program string, args ...string) (*testkit.Process, error) {
	if filepath.IsAbs(program) {
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("a program is not built: %w", err)
		}
	}
	h.mu.Lock()
	h.next++
	file := filepath.Join(h.Dir, fmt.Sprintf("%s-%d.log", name, h.next))
	h.mu.Unlock()

	cmd := h.tools.Command(context.Background(), h.prefix, program, args...)
	// Wine's own errors: a program that it cannot start says nothing itself
	cmd.Env = append(cmd.Env, "WINEDEBUG=fixme-all")
	p, err := testkit.StartProcess(name+" on "+h.Name, h.Netns, file, cmd)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.procs = append(h.procs, p)

	return p, nil
}

// Get asks a server on the host, for example the proxy's health at HealthPort, and gives status and body.
func (h *Host) Get(ctx context.Context, port uint16, path string) (status int, body string, err error) {
	return h.Page(ctx, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), path)
}

// Page asks a server of HTTP, and gives status and body.
func (p Place) Page(ctx context.Context, at netip.AddrPort, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: testkit.DialIn(p.Netns)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s%s", at, path), nil)
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
