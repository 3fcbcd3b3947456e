package join

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
)

// faulty is a machine on which something fails.
type faulty struct{ follower }

// TestFaults: a join meets a full disk, a control plane that goes away in the middle, and later a certificate that has
// expired. Each time the same line goes on when the fault is over.
func TestFaults(t *testing.T) {
	if os.Getenv("PORTHOLE_JOIN") == "" {
		t.Skip("PORTHOLE_JOIN=long, or `make test-join`")
	}
	cp := newControlPlane(t, "cp04", "10.99.0.24")
	m := cp.at(t).fresh("lin81", "10.99.0.81")
	m.supervise()
	f := faulty{m.at(t)}
	line := append(cp.joinLine(), "--patches", m.patches(), "--timeout", "3m")
	fresh := m.snapshot()

	f.full(line)
	f.leaves(cp, fresh)
	f.awayFor(cp, "certificate made", line, fresh)
	f.awayFor(cp, "routes-config made", line, fresh)
	f.awayForEver(cp, line, fresh)
	f.expires(cp, line)
}

// leaves makes the machine no node any more.
func (m faulty) leaves(cp *machine, fresh string) {
	m.t.Helper()
	if r := m.porthole("leave"); r.code != 0 {
		m.t.Fatalf("leave: code %d: %s%s", r.code, r.out, r.err)
	}
	m.clean(fresh)
	cp.kubectl("delete", "node", m.name, "--ignore-not-found")
}

// full joins while one folder after the other has no space: the error names the file and its size, and nothing half is
// left.
func (m faulty) full(line []string) {
	m.t.Helper()
	line = append(with(line, "", ""), "--ignore-preflight-errors=DiskSpace")
	for _, dir := range []string{"/var/lib/porthole-node", "/var/lib/kubelet", "/usr/lib/porthole", "/etc/kubernetes"} {
		m.ok("mount", "-o", "remount,size=4k", dir) // one page: no file that is not empty fits beside another
		m.ok("bash", "-c", "head -c 4096 /dev/zero > "+dir+"/filler")
		r := m.porthole(line...)
		if r.code != 1 || !strings.Contains(r.err, "no space left on device") || !strings.Contains(r.err, dir+"/") ||
			!strings.Contains(r.err, " bytes)") {
			m.t.Errorf("%s is full: code %d: %s%s", dir, r.code, r.out, r.err)
		}
		if half := m.ok("find", dir, "-name", "*.new"); half != "" {
			m.t.Errorf("%s is full: half files %s", dir, half)
		}
		m.ok("mount", "-o", "remount,size=8g", dir)
		m.ok("rm", dir+"/filler")
	}
	if r := m.porthole(line...); r.code != 0 {
		m.t.Fatalf("with space: code %d: %s%s\nsupervisor:\n%s", r.code, r.out, r.err, tail(m.log("supervisor")))
	}
}

// drop keeps the API server from the machine until the function that it returns is called.
func (m faulty) drop() (back func()) {
	m.t.Helper()
	nft := func(script string) {
		m.t.Helper()
		if r := m.runWith(context.Background(), script, "nft", "-f", "-"); r.code != 0 {
			m.t.Fatalf("nft: %s", r.err)
		}
	}
	nft("table inet test-away { chain output { type filter hook output priority 0; tcp dport 6443 drop; }; }\n")
	return func() { nft("delete table inet test-away\n") }
}

// joinUntil runs a join, calls then when it has printed a text, and returns how it ended. The join is stopped while
// then runs, because its next step can take less time.
func (m faulty) joinUntil(text string, then func(), args ...string) (code int, out string) {
	m.t.Helper()
	c := m.inside(filepath.Join(bin, "porthole"), args...)
	code, out, err := testkit.RunUntil(c, 10*time.Minute, text, func() {
		nsenter := c.Process.Pid
		child, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", nsenter))
		must(m.t, err)
		join, err := strconv.Atoi(strings.TrimSpace(string(child)))
		must(m.t, err)

		must(m.t, unix.Kill(join, unix.SIGSTOP))
		defer func() { // nsenter stops with its child
			must(m.t, errors.Join(unix.Kill(join, unix.SIGCONT), unix.Kill(nsenter, unix.SIGCONT)))
		}()
		then()
	})
	must(m.t, err)
	return code, out
}

// awayTime is how long the API server is away in the middle of a join.
const awayTime = 15 * time.Second

// awayFor: the API server goes away when a step has been carried out, and comes back. The join waits for it.
func (m faulty) awayFor(cp *machine, after string, line []string, fresh string) {
	m.t.Helper()
	code, out := m.joinUntil(after, func() { time.AfterFunc(awayTime, m.drop()) }, line...)
	if code != 0 || !strings.Contains(out, "is Ready") {
		m.t.Errorf("away for %v after %q: code %d: %s", awayTime, after, code, out)
	}
	cp.ready(m.name)
	m.leaves(cp, fresh)
}

// awayForEver: with its time over, a join that has not installed anything has failed, and one that has says that its
// programs go on trying; which they do.
func (m faulty) awayForEver(cp *machine, line []string, fresh string) {
	m.t.Helper()
	short := append(with(line, "", ""), "--timeout", "20s")
	var back func()
	if code, out := m.joinUntil("certificate made", func() { back = m.drop() }, short...); code != 1 ||
		!strings.Contains(out, "cannot reach https://10.99.0.24:6443") {
		m.t.Errorf("away for ever after the certificate: code %d: %s", code, out)
	}
	if r := m.porthole("leave"); r.code != 0 { // away all the time
		m.t.Errorf("leave with the API server away: code %d: %s%s", r.code, r.out, r.err)
	}
	m.clean(fresh)
	back()

	if code, out := m.joinUntil("routes-config made", func() { back = m.drop() }, short...); code != 6 {
		m.t.Errorf("away for ever after the files: code %d: %s", code, out)
	}
	back()
	cp.ready(m.name)
}

// expires gives the node a certificate that has expired: a join without a token says so, one with a token gets a new
// one, and nothing else.
func (m faulty) expires(cp *machine, line []string) {
	m.t.Helper()
	if report, r := m.report(line...); r.code != 0 {
		m.t.Fatalf("before: code %d: %s %s", r.code, report.Error, r.err)
	}
	ca, err := tls.X509KeyPair([]byte(cp.ok("cat", "/etc/kubernetes/pki/ca.crt")),
		[]byte(cp.ok("cat", "/etc/kubernetes/pki/ca.key")))
	must(m.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(m.t, err)
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(77),
		Subject:   pkix.Name{CommonName: "system:node:" + m.name, Organization: []string{"system:nodes"}},
		NotBefore: now.Add(-100 * time.Hour), NotAfter: now.Add(-72 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	cert, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	must(m.t, err)
	der, err := x509.MarshalECPrivateKey(key)
	must(m.t, err)
	pair := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...)
	const file = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	if r := m.runWith(context.Background(), string(pair), "bash", "-c",
		"cat > "+file+".x && mv "+file+".x "+file); r.code != 0 {
		m.t.Fatal(r.err)
	}

	if r := m.porthole("join"); r.code != 4 ||
		!strings.Contains(r.out, "the certificate of this node cannot be used (it ended at ") ||
		!strings.Contains(r.out, "→ kubeadm token create --print-join-command") {
		m.t.Errorf("expired, without a token: code %d: %s%s", r.code, r.out, r.err)
	}
	report, r := m.report(line...)
	var done []string
	for _, s := range report.Steps {
		if s.Result == "done" {
			done = append(done, s.ID)
		}
	}
	if r.code != 0 || report.Outcome != step.Joined || strings.Join(done, " ") != "key certificate" {
		m.t.Errorf("expired, with a token: code %d, %s, steps %v: %s", r.code, report.Outcome, done, report.Error)
	}
	wait.True(m.t, 2*time.Minute, "the node to renew its lease with the new certificate", func() bool {
		at, err := time.Parse(time.RFC3339Nano,
			strings.Trim(cp.kubectl("-n", "kube-node-lease", "get", "lease", m.name, "-o",
				"jsonpath={.spec.renewTime}"), `"`))
		return err == nil && at.After(now.Add(15*time.Second))
	})
	cp.ready(m.name)
}
