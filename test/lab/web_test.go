package lab

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/browser"
)

// brokenService has a backend of its own, so that it takes no pod.
const brokenService = `
apiVersion: v1
kind: Service
metadata: {name: seen-to-fail}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: seen-to-fail-1, labels: {kubernetes.io/service-name: seen-to-fail}}
addressType: IPv4
ports: [{name: "", port: 80, protocol: TCP}]
endpoints: [{addresses: [10.244.0.250]}]
`

// page starts `porthole web` and returns the link that it prints.
func page(t *testing.T) (link string) {
	t.Helper()
	cmd := exec.Command(porthole, "web", "--dir", dir, "--allow-faults")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://127.0.0.1:") {
			return text
		}
	}
	t.Fatal("porthole web ended without a link")
	return ""
}

// TestWeb: the page shows the cluster; a fault that is switched on there breaks a service, which the page says, with the node and the reason; after
// its end the service is right again, and the list of what happened says for how long it was not.
func TestWeb(t *testing.T) {
	b := browser.New(t)
	link := page(t)
	base, _, _ := strings.Cut(link, "/?")
	b.Open(browser.Args{Tab: "a", URL: link})
	b.Wait("a", "document.querySelectorAll('svg.map g.card').length >= 3 && document.querySelectorAll('svg.map path.drop.s-right').length >= 3", time.Minute)

	b.Open(browser.Args{Tab: "a", URL: base + "/#/hosts"})
	const card = "[...document.querySelectorAll('article')].find((a) => a.querySelector('h2').textContent.includes('win01'))"
	b.Wait("a", card, time.Minute)
	b.Do("click", browser.Args{Tab: "a", Text: "article:has-text('win01') button:has-text('Make it happen')"}, nil)
	b.Wait("a", card+"?.textContent.includes('HcnCreateLoadBalancer: fail')", 30*time.Second)
	t.Cleanup(func() { command(time.Minute, porthole, "host", "hns", "--dir", dir, "win01", "fault", "none") })

	apply(t, brokenService)
	b.Open(browser.Args{Tab: "a", URL: base + "/#/map"})
	b.Wait("a", "document.querySelector('.card.s-wrong[data-key=\"node/win01\"]') && document.querySelector('.details').textContent.includes('default/seen-to-fail')", time.Minute)
	if out, err := command(time.Minute, porthole, "why", "service", "seen-to-fail", "--dir", dir); err == nil || !strings.Contains(out, "win01") {
		t.Errorf("porthole why says %v:\n%s", err, out)
	}

	b.Open(browser.Args{Tab: "a", URL: base + "/#/hosts"})
	b.Wait("a", card, time.Minute)
	b.Do("click", browser.Args{Tab: "a", Text: "article:has-text('win01') button:has-text('End faults')"}, nil)
	b.Wait("a", "[...document.querySelectorAll('.events li')].some((l) => /seen-to-fail.*as it should be after/.test(l.textContent))", 2*time.Minute)

	// On paper: the packet's way, and nothing is wrong with it.
	b.Open(browser.Args{Tab: "a", URL: base + "/#/packet?from=win01&to=kube-system/kube-dns:53&protocol=udp"})
	b.Wait("a", "document.querySelectorAll('g.hop').length > 3 && !document.querySelector('g.hop.s-wrong')", 2*time.Minute)
	var failures []string
	b.Do("failures", browser.Args{Tab: "a"}, &failures)
	for _, f := range failures {
		t.Errorf("the browser complains: %s", f)
	}
}
