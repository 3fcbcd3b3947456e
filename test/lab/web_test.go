package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"porthole.dev/porthole/cluster/supervise"
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
func page(t *testing.T, args ...string) (link string) {
	t.Helper()
	return browser.Served(t, exec.Command(porthole, append([]string{"web"}, args...)...))
}

// TestWeb: the page shows the cluster; a fault that is switched on there breaks a service, which the page says, with
// the node and the reason; after its end the service is right again, and the list of what happened says for how long
// it was not.
func TestWeb(t *testing.T) {
	b := browser.New(t)
	link := page(t, "--dir", dir, "--allow-faults")
	base, _, _ := strings.Cut(link, "/?")
	b.Open(browser.Args{Tab: "a", URL: link})
	b.Wait("a",
		"document.querySelectorAll('svg.map g.card').length >= 3 && document.querySelectorAll('svg.map path.drop.s-right').length >= 3", time.Minute)

	b.Open(browser.Args{Tab: "a", URL: base + "/#/hosts"})
	const card = "[...document.querySelectorAll('article')].find((a) => a.querySelector('h2').textContent.includes('win01'))"
	b.Wait("a", card, time.Minute)
	b.Do("click", browser.Args{Tab: "a", Text: "article:has-text('win01') button:has-text('Make it happen')"}, nil)
	b.Wait("a", card+"?.textContent.includes('HcnCreateLoadBalancer: fail')", 30*time.Second)
	t.Cleanup(func() { command(time.Minute, porthole, "host", "hns", "--dir", dir, "win01", "fault", "none") })

	apply(t, brokenService)
	b.Open(browser.Args{Tab: "a", URL: base + "/#/map"})
	b.Wait("a",
		"document.querySelector('.card.s-wrong[data-key=\"node/win01\"]') && document.querySelector('.details').textContent.includes('default/seen-to-fail')", time.Minute)
	if out, err := command(time.Minute, porthole, "why", "service", "seen-to-fail", "--dir", dir); err == nil ||
		!strings.Contains(out, "win01") {
		t.Errorf("porthole why says %v:\n%s", err, out)
	}

	b.Open(browser.Args{Tab: "a", URL: base + "/#/hosts"})
	b.Wait("a", card, time.Minute)
	b.Do("click", browser.Args{Tab: "a", Text: "article:has-text('win01') button:has-text('End faults')"}, nil)
	b.Wait("a",
		"[...document.querySelectorAll('.events li')].some((l) => /seen-to-fail.*as it should be after/.test(l.textContent))", 2*time.Minute)

	// On paper: the packet's way, and nothing is wrong with it.
	b.Open(browser.Args{Tab: "a", URL: base + "/#/packet?from=win01&to=kube-system/kube-dns:53&protocol=udp"})
	b.Wait("a", "document.querySelectorAll('g.hop').length > 3 && !document.querySelector('g.hop.s-wrong')",
		2*time.Minute)
	var failures []string
	b.Do("failures", browser.Args{Tab: "a"}, &failures)
	for _, f := range failures {
		t.Errorf("the browser complains: %s", f)
	}
}

// imagesSeen are pods for Windows nodes: one image has a variant for their build, one has not.
const imagesSeen = `
apiVersion: v1
kind: Pod
metadata: {name: seen-to-run}
spec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{name: app, image: "porthole/testapp:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: seen-not-to-run}
spec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{name: app, image: "porthole/testapp:1709"}]}
`

// TestWebByKubeconfig: with nothing but the kubeconfig of the cluster's administrator the page has routes and services
// of every node, by the authorised ports of their kubelets; it follows a packet, has the table of images and nodes,
// and says that there are no emulated hosts for it.
func TestWebByKubeconfig(t *testing.T) {
	b := browser.New(t)
	kubeconfig := filepath.Join(t.TempDir(), "admin.conf") // of a folder where nothing else is
	data, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	if err == nil {
		err = os.WriteFile(kubeconfig, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	apply(t, imagesSeen)
	link := page(t, "--kubeconfig", kubeconfig)
	base, _, _ := strings.Cut(link, "/?")
	b.Open(browser.Args{Tab: "a", URL: link})
	b.Wait("a",
		"document.querySelectorAll('svg.map path.drop.s-right').length >= 3 && document.querySelector('h1').textContent.includes('admin.conf')", time.Minute)

	b.Open(browser.Args{Tab: "a", URL: base + "/#/services?sel=kube-system/kube-dns"})
	b.Wait("a",
		"[...document.querySelectorAll('tr')].filter((r) => /win0[12]/.test(r.textContent) && /programmed/.test(r.textContent)).length === 2", time.Minute)
	b.Open(browser.Args{Tab: "a", URL: base + "/#/packet?from=win01&to=kube-system/kube-dns:53&protocol=udp"})
	b.Wait("a",
		"document.querySelectorAll('g.hop').length > 3 && !document.querySelector('g.hop.s-wrong, g.hop.s-unknown')",
		2*time.Minute)
	b.Open(browser.Args{Tab: "a", URL: base + "/#/hosts"})
	b.Wait("a", "document.querySelector('main').textContent.includes('emulated')", time.Minute)

	// The registry of the local cluster is known to commands on this machine only.
	link = page(t, "--dir", dir)
	base, _, _ = strings.Cut(link, "/?")
	b.Open(browser.Args{Tab: "a", URL: link})
	b.Open(browser.Args{Tab: "a", URL: base + "/#/images"})
	const row = "[...document.querySelectorAll('tbody tr')].find((r) => r.cells[0].textContent.endsWith('%s'))?.querySelectorAll('.dot.s-%s').length === 2"
	b.Wait("a", fmt.Sprintf(row, "testapp:1", "right")+" && "+fmt.Sprintf(row, "testapp:1709", "wrong"), 2*time.Minute)

	var failures []string
	b.Do("failures", browser.Args{Tab: "a"}, &failures)
	for _, f := range failures {
		t.Errorf("the browser complains: %s", f)
	}
}

// probedPods are at both ends of a probe.
const probedPods = `
apiVersion: v1
kind: Pod
metadata: {name: probe-from}
spec: {nodeName: win02, tolerations: [{operator: Exists}], containers: [{name: app, image: "porthole/testapp:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: probe-to}
spec: {nodeName: win01, tolerations: [{operator: Exists}], containers: [{name: app, image: "porthole/testapp:1"}]}
`

// TestPathProbe: a probe that is sent is seen on the machines of its way and in the pods at both ends; when the route
// is deleted and nobody puts it back, the hop of the route is the first that it does not pass, on the command line and
// in the page.
func TestPathProbe(t *testing.T) {
	apply(t, probedPods)
	kubectl(t, "wait", "--for=condition=Ready", "--timeout=90s", "pod/probe-from", "pod/probe-to")
	ask := []string{"path", "probe-from", "probe-to:8080", "--probe", "--dir", dir, "-o", "json"}
	type seen struct {
		Ways  []struct{ Hops []struct{ At, What string } }
		Probe struct {
			Answer, Lost string
			Hop          int
			Sightings    []struct{ At string }
		}
	}
	send := func(wantErr bool) (s seen) {
		t.Helper()
		out, err := command(time.Minute, porthole, ask...)
		if (err != nil) != wantErr {
			t.Errorf("porthole path --probe: %v", err)
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return s
	}

	right := send(false)
	for _, at := range []string{"default/probe-from", "win02", "win01", "default/probe-to"} {
		if !slices.ContainsFunc(right.Probe.Sightings, func(s struct{ At string }) bool { return s.At == at }) {
			t.Errorf("not seen at %s: %+v", at, right.Probe)
		}
	}
	if right.Probe.Hop != -1 || right.Probe.Answer == "" {
		t.Errorf("the probe: %+v", right.Probe)
	}

	b := browser.New(t)
	link := page(t, "--dir", dir)
	base, _, _ := strings.Cut(link, "/?")
	b.Open(browser.Args{Tab: "a", URL: link})
	b.Open(browser.Args{Tab: "a", URL: base + "/#/packet?from=default/probe-from&to=default/probe-to:8080"})
	b.Wait("a", "document.querySelectorAll('g.hop').length > 1", time.Minute)
	b.Do("click", browser.Args{Tab: "a", Text: "button:has-text('Send a probe')"}, nil)
	b.Wait("a",
		"document.querySelector('.problem.probe.s-right') && [...document.querySelectorAll('.mark.probe')].some((m) => m.textContent.includes('seen'))", time.Minute)

	lose(t, "win02", "win01")
	lost := send(true)
	hop := lost.Probe.Hop
	if hop < 0 || hop >= len(lost.Ways[0].Hops) || lost.Ways[0].Hops[hop].At != "win02" ||
		lost.Ways[0].Hops[hop].What != "route" ||
		!strings.Contains(lost.Probe.Lost, "default/probe-to did not get it") {
		t.Errorf("without its route the probe was lost as %+v", lost)
	}
	b.Do("click", browser.Args{Tab: "a", Text: "button:has-text('Send a probe')"}, nil)
	b.Wait("a",
		"document.querySelector('.problem.probe.s-wrong') && document.querySelector('g.hop.first .mark.probe.lost')",
		time.Minute)
}

// lose deletes the route of a node to the pods of another, and keeps the agent from putting it back until the test
// ends.
func lose(t *testing.T, node, to string) {
	t.Helper()
	states, err := supervise.States(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(states, func(s supervise.State) bool { return s.Name == node+"/routes" })
	if i < 0 || states[i].PID == 0 {
		t.Fatalf("%s/routes does not run", node)
	}
	if err := syscall.Kill(states[i].PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(states[i].PID, syscall.SIGCONT) })

	var other struct{ Spec struct{ PodCIDR string } }
	object(t, &other, "node", to)
	if out, err := command(time.Minute, "ip", "-n", netnsOf("porthole-"+node), "route", "del",
		other.Spec.PodCIDR); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}
